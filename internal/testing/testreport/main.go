// Command testreport runs go test and says at the end which tests were skipped, and why.
//
//	testreport [flags of go test] packages
//
// It prints a line for each package, and the output of what failed. PAIRSTREAM_SKIPS names a file of the skips that are
// expected. With it, a skip that the file does not list is a failure. A line of the file is
//
//	PACKAGE.TEST  VARIABLE  why
//
// PACKAGE is the end of the import path and TEST the top of the test's name. VARIABLE is an environment variable, and the
// skip is expected only while it is empty; - stands for none. Lines that begin with # are comments. PAIRSTREAM_SKIPPED
// names a file to which the skips are appended.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	failed, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if failed {
		os.Exit(1)
	}
}

// run runs go test with the arguments and reports whether anything failed.
func run(args []string, out io.Writer) (failed bool, err error) {
	var wanted *expectations
	if path := os.Getenv("PAIRSTREAM_SKIPS"); path != "" {
		if wanted, err = readExpectations(path, os.Getenv); err != nil {
			return false, err
		}
	}
	cmd := exec.CommandContext(context.Background(), "go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return false, fmt.Errorf("running go test: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("running go test: %w", err)
	}
	r := newReport(out)
	err = r.read(events)
	var exit *exec.ExitError
	if waitErr := cmd.Wait(); waitErr != nil && !errors.As(waitErr, &exit) {
		err = errors.Join(err, fmt.Errorf("running go test: %w", waitErr))
	}
	if err != nil {
		return false, err
	}
	unexpected := r.summarize(wanted)
	if exit != nil && exit.ExitCode() != 1 {
		fmt.Fprintf(out, "go test ended with %v\n", exit)
	}
	if path := os.Getenv("PAIRSTREAM_SKIPPED"); path != "" {
		if err := r.record(path); err != nil {
			return false, err
		}
	}
	return exit != nil || r.failed > 0 || unexpected > 0, nil
}
