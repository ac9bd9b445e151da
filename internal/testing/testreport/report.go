package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
}

// skip is a test that was skipped.
type skip struct{ test, reason string }

// report follows the events of a run.
type report struct {
	out            io.Writer
	output         map[string][]string // of tests that have not ended, by name
	running        map[string]bool     // packages that have not ended
	passed, failed int
	skips          []skip
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[string][]string{}, running: map[string]bool{}}
}

// read reads every event. It prints a line that is not an event as it is.
func (r *report) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		switch {
		case len(line) == 0:
		case json.Unmarshal(line, &e) != nil:
			fmt.Fprint(r.out, string(line))
		default:
			r.take(e)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of go test: %w", err)
		}
	}
}

func (r *report) take(e event) {
	name := e.Package + "." + e.Test
	switch e.Action {
	case "start":
		r.running[e.Package] = true
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		if e.Test == "" {
			if !noise.MatchString(e.Output) {
				fmt.Fprint(r.out, e.Output)
			}
			return
		}
		r.output[name] = append(r.output[name], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endOfPackage(e)
			return
		}
		r.end(e.Action, name)
	}
}

// noise matches what a package prints besides its line of result.
var noise = regexp.MustCompile(`^(PASS|FAIL|testing: warning: no tests to run)\s*$`)

// endOfPackage shows what is left of tests that never ended, because the package crashed or ran out of time.
func (r *report) endOfPackage(e event) {
	delete(r.running, e.Package)
	if e.Action == "fail" {
		r.failed++
		for name, lines := range r.output {
			if strings.HasPrefix(name, e.Package+".") {
				fmt.Fprintf(r.out, "--- did not end: %s\n%s", name, strings.Join(lines, ""))
			}
		}
	}
	for name := range r.output {
		if strings.HasPrefix(name, e.Package+".") {
			delete(r.output, name)
		}
	}
}

// end counts a test and prints its output if it failed.
func (r *report) end(action, name string) {
	lines := r.output[name]
	delete(r.output, name)
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		fmt.Fprint(r.out, strings.Join(lines, ""))
	case "skip":
		r.skips = append(r.skips, skip{name, reason(lines)})
	}
}

// reason returns the line of a test's output that says why it was skipped.
func reason(lines []string) string {
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			return line
		}
	}
	return "no reason given"
}

// summarize prints the counts and the skips, and returns how many skips were not expected.
func (r *report) summarize(wanted *expectations) (unexpected int) {
	for _, name := range slices.Sorted(maps.Keys(r.running)) {
		r.failed++
		fmt.Fprintf(r.out, "FAIL\t%s: go test ended before the package did\n", name)
	}
	fmt.Fprintf(r.out, "%d tests passed, %d tests and packages failed, %d tests were skipped\n", r.passed, r.failed, len(r.skips))
	for _, s := range r.skips {
		note := ""
		if wanted != nil && !wanted.allow(s.test) {
			note = "UNEXPECTED "
			unexpected++
		}
		fmt.Fprintf(r.out, "  %sskip: %s: %s\n", note, s.test, s.reason)
	}
	return unexpected
}

// record appends the skips to a file.
func (r *report) record(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("recording skips: %w", err)
	}
	for _, s := range r.skips {
		if _, err = fmt.Fprintf(f, "%s: %s\n", s.test, s.reason); err != nil {
			break
		}
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("recording skips: %w", err)
	}
	return nil
}
