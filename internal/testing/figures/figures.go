// Package figures collects what the tests of the log have measured, so that a run of them ends with a table. It has
// faults survived, records compared, and the longest recovery. It is for tests only.
//
// No test asserts on figures. They go to the test's log. When PAIRSTREAM_FIGURES names a file, they are also appended
// to it, a line each; the Makefile prints that file.
package figures

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// File is the environment variable that names the file to append to.
const File = "PAIRSTREAM_FIGURES"

// Figures are the figures of one scenario. A zero was not measured.
type Figures struct {
	Scenario string
	Broker   string        // embedded or cluster
	Faults   int           // kills, pauses, injected crashes
	Records  int           // compared with those of an undisturbed run
	Recovery time.Duration // longest time from a fault until everything written before it was processed
	Note     string
}

// String returns one line of the table.
func (f Figures) String() string {
	recovery := ""
	if f.Recovery > 0 {
		recovery = fmt.Sprintf("%.1f s", f.Recovery.Seconds())
	}
	line := fmt.Sprintf("%-44s %-8s %6d faults %9d records  %7s  %s", f.Scenario, f.Broker, f.Faults, f.Records, recovery, f.Note)
	return strings.TrimRight(line, " ")
}

// Record logs figures and appends them to the file.
func Record(t testing.TB, f Figures) {
	t.Helper()
	t.Logf("figures: %s", f)
	path := os.Getenv(File)
	if path == "" {
		return
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Errorf("taking figures down: %v", err)
		return
	}
	if _, err := fmt.Fprintln(file, f); err != nil {
		t.Errorf("taking figures down: %v", err)
	}
	if err := file.Close(); err != nil {
		t.Errorf("taking figures down: %v", err)
	}
}
