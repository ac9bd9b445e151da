// Package machine says on what a measurement was made: the processor, the load, the revision, and the processor time
// that this process has used. What the system does not tell is empty or 0.
package machine

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Processor returns the name of the processor, or its architecture.
func Processor() string { return cmp.Or(Field("/proc/cpuinfo", "model name"), runtime.GOARCH) }

// Field returns the value of a name in a file of lines with colons, as the system writes them.
func Field(path, name string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Load returns the load of the last minute.
func Load() (load float64, err error) {
	raw, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(raw), &load)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the load of the machine: %w", err)
	}
	return load, nil
}

// Revision returns the commit of the sources in this folder.
func Revision(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(head))
}

// ProcessorTime returns what this process has computed. Other programs on the machine distort it less than the clock.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // only arguments can be wrong
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
