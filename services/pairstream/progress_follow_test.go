package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// reporter publishes reports of training.
func reporter(t *testing.T, log *stream.Log) func(step int64, loss float64) {
	p := log.NewPublisher(stream.PublisherOptions{})
	t.Cleanup(func() { _ = p.Close(context.Background()) }) // each report has been flushed
	return func(step int64, loss float64) {
		t.Helper()
		err := p.Publish(t.Context(), schemas.ProgressLog, 0, &schemas.Progress{Kind: schemas.ProgressStep, Step: step, Time: 1_750_000_000_000, Values: schemas.Measures{"loss": loss}})
		if err == nil {
			err = p.Flush(t.Context())
		}
		must.Do(t, err)
	}
}

// following runs a command that goes on, and returns the lines that it prints. stop interrupts it and returns its error
// and what it said.
func following(t *testing.T, args ...string) (lines *bufio.Scanner, stop func() (string, error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, w := io.Pipe()
	root := newRoot()
	var said bytes.Buffer
	root.SetArgs(args)
	root.SetOut(w)
	root.SetErr(&said)
	ended := make(chan error, 1)
	go func() {
		err := interrupt.Unfinished(root.ExecuteContext(ctx))
		_ = w.Close() // never fails
		ended <- err
	}()
	return bufio.NewScanner(r), func() (string, error) {
		cancel()
		err := <-ended
		return said.String(), err
	}
}

// TestProgressFollows prints what is there, then what comes, until it is interrupted. That is no error.
func TestProgressFollows(t *testing.T) {
	log := testLog(t)
	report := reporter(t, log)
	report(10, 3)
	report(10, 2.5)
	lines, stop := following(t, "progress", "--follow", "--json", "--kind", "step")
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Errorf("printed %q, want %q (%v)", lines.Text(), want, lines.Err())
		}
	}
	next(`{"kind":"step","step":10,"time":"2025-06-15T15:06:40Z","values":{"loss":2.5}}`)
	report(20, 2)
	next(`{"kind":"step","step":20,"time":"2025-06-15T15:06:40Z","values":{"loss":2}}`)
	cfg := log.Config()
	newer := kafkatest.Message{Topic: schemas.ProgressLog.Name(cfg.Namespace), Value: []byte{0x80}, Headers: []kafkatest.MessageHeader{
		{Key: schemas.HeaderSchema, Value: []byte("pairstream.progress/2")},
	}}
	must.Do(t, kafkatest.WriteMessage(t.Context(), cfg.Brokers, newer))
	report(30, 1.5)
	next(`{"kind":"step","step":30,"time":"2025-06-15T15:06:40Z","values":{"loss":1.5}}`)
	if said, err := stop(); err != nil || !strings.Contains(said, "a record of progress is left out") || !strings.Contains(said, "progress/2") {
		t.Errorf("it ends with %v, and says %q", err, said)
	}
	lines, stop = following(t, "progress", "--follow")
	for _, want := range []string{"STEP", "10", "20", "30"} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Errorf("printed %q, want %s", lines.Text(), want)
		}
	}
	report(40, 1)
	next("2025-06-15T15:06:40Z  40  step  loss=1")
	if _, err := stop(); err != nil {
		t.Error(err)
	}
}

// script writes a program that stands for Python.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755))
	return path
}

// TestProgressIsTracked hands reports to a process, which gets them as they come, and the end when the command is
// interrupted.
func TestProgressIsTracked(t *testing.T) {
	log := testLog(t)
	report := reporter(t, log)
	report(10, 2.5)
	python := script(t, `shift 2; echo "$@"; exec cat`)
	out := mustCommand(t, "progress", "--to", "wandb", "--python", python, "--run", "r 1")
	said, rest, _ := strings.Cut(out, "\n")
	first, rest, _ := strings.Cut(rest, "\n")
	if !strings.HasPrefix(first, `{"kind":"run","step":0,"params":{"LANES":"`) || !strings.Contains(first, `"commit":"`) {
		t.Errorf("the process got first\n%s\nwant the run's settings and tags", first)
	}
	out = said + "\n" + rest
	if want := "track --to wandb --project pairstream --run r 1\n{\"kind\":\"step\",\"step\":10,\"time\":\"2025-06-15T15:06:40Z\",\"values\":{\"loss\":2.5}}\n"; out != want {
		t.Errorf("the process got\n%s\nwant\n%s", out, want)
	}
	t.Setenv("PAIRSTREAM_PYTHON", python)
	lines, stop := following(t, "progress", "--to", "mlflow", "--follow")
	for _, want := range []string{"--to mlflow --project pairstream --run ", `"kind":"run"`, `"step":10`} {
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Errorf("the process got %q, want %s", lines.Text(), want)
		}
	}
	report(20, 2)
	if !lines.Scan() || !strings.Contains(lines.Text(), `"step":20`) {
		t.Errorf("the process got %q, want step 20", lines.Text())
	}
	if said, err := stop(); err != nil || said != "" {
		t.Errorf("it ends with %v, and says %q", err, said)
	}
}

// TestProgressTrackerFails: a process that ends early ends the command, also while no report comes.
func TestProgressTrackerFails(t *testing.T) {
	reporter(t, testLog(t))(10, 2.5)
	missing := script(t, `echo "python3: No module named pairstream" >&2; exit 1`)
	broken := script(t, `echo "no such server" >&2; exit 1`)
	for args, want := range map[string]string{
		"--to neptune":                            `--to is "neptune", want mlflow or wandb`,
		"--to mlflow --json":                      "[json to]",
		"--follow --csv":                          "[csv follow]",
		"--follow --tensorboard x":                "[follow tensorboard]",
		"--to mlflow --python /nowhere/python":    "--to mlflow needs Python: fork/exec /nowhere/python: no such file or directory: install it with the package pairstream[mlflow], or name it with --python",
		"--to wandb --python " + missing:          "No module named pairstream: install the Python package with `pip install 'clients/python[wandb]'` or the wheel's file, or name the Python that has it with --python",
		"--to mlflow --follow --python " + broken: ": no such server",
	} {
		if _, err := command(t, append([]string{"progress"}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q in it", args, err, want)
		}
	}
}

// TestTrackerRunsNoModulesOfTheWorkingFolder has a Python that knows no PYTHONSAFEPATH, as 3.10 and those before.
func TestTrackerRunsNoModulesOfTheWorkingFolder(t *testing.T) {
	reporter(t, testLog(t))(10, 2.5)
	ours := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(ours, "pairstream"), 0o700))
	program := "import json, sys\nprint('ours', *sys.argv[1:4])\nsys.stdin.read()\n"
	must.Do(t, os.WriteFile(filepath.Join(ours, "pairstream", "__main__.py"), []byte(program), 0o600))
	t.Setenv("PYTHONPATH", ours)
	old := script(t, "unset PYTHONSAFEPATH; exec python3 \"$@\"")
	t.Chdir(t.TempDir())
	for _, name := range []string{"json.py", "runpy.py", "pairstream.py", "sitecustomize.py"} {
		must.Do(t, os.WriteFile(name, []byte("print('a stranger')\n"), 0o600))
	}
	if out := mustCommand(t, "progress", "--to", "mlflow", "--python", old); out != "ours track --to mlflow\n" {
		t.Errorf("the process says %q, want the package's own program alone", out)
	}
}

// TestProgressTrackerIsSafe tells Python's own processes to take no module from the working folder, and passes on no
// password.
func TestProgressTrackerIsSafe(t *testing.T) {
	reporter(t, testLog(t))(10, 2.5)
	t.Setenv("MLFLOW_TRACKING_URI", "http://alice:hunter2@mlflow:5000")
	python := script(t, `echo "safe path: $PYTHONSAFEPATH"; printf "asking http://ali" >&2; printf "ce:hunter2@mlflow:5000/x\n%s is dead" "$MLFLOW_TRACKING_URI" >&2; exit 1`)
	var out, said bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"progress", "--to", "mlflow", "--python", python})
	root.SetOut(&out)
	root.SetErr(&said)
	err := root.ExecuteContext(t.Context())
	if out.String() != "safe path: 1\n" {
		t.Errorf("the process has %q, want PYTHONSAFEPATH=1", out.String())
	}
	if want := "asking http://***@mlflow:5000/x\nhttp://***@mlflow:5000 is dead"; said.String() != want {
		t.Errorf("it says %q, want %q", said.String(), want)
	}
	if err == nil || !strings.HasSuffix(err.Error(), ": http://***@mlflow:5000 is dead") {
		t.Errorf("error %v", err)
	}
}
