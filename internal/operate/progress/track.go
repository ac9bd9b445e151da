package progress

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/base/display"
)

// Tracker sends reports to a service that tracks experiments. A process of the Python package reads the reports from
// its standard input, as JSON, and calls the service's own client.
type Tracker struct {
	To      string // the service, of Trackers; empty: none
	Project string // MLflow's experiment, or the project of Weights & Biases
	Name    string // of the run, which the same name continues; empty: the namespace, or pairstream
	Python  string // that has the package pairstream; empty: PAIRSTREAM_PYTHON, or python3
}

// trackers lists the values of --to. The extra of the Python package with the client has the same name.
var trackers = []string{"mlflow", "wandb"}

func (t *Tracker) check() error {
	if t.To != "" && !slices.Contains(trackers, t.To) {
		return fmt.Errorf("--to is %q, want mlflow or wandb", t.To)
	}
	return nil
}

// program is `python -m pairstream` without the working folder on the path, where a json.py would run. -P and
// PYTHONSAFEPATH need Python 3.11, and -I would exclude the user's packages.
const program = "import sys; sys.path = [p for p in sys.path if p]; import runpy; runpy.run_module('pairstream', run_name='__main__', alter_sys=True)"

// run starts the process and calls write, which passes it the reports. If the process ends early, the context of write
// ends.
func (t *Tracker) run(ctx context.Context, namespace string, out, warn io.Writer, write func(context.Context, io.Writer) error) error {
	python := cmp.Or(t.Python, os.Getenv("PAIRSTREAM_PYTHON"), "python3")
	args := []string{"-c", program, "track", "--to", t.To, "--project", t.Project, "--run", cmp.Or(t.Name, namespace, "pairstream")}
	// An interruption ends write. The process then reads the end of its input, and finishes what it has.
	child := exec.CommandContext(context.WithoutCancel(ctx), python, args...)
	child.Env = append(os.Environ(), "PYTHONSAFEPATH=1") // for what the service's client starts
	said := &ending{w: warn}
	child.Stdout, child.Stderr = out, said
	in, err := child.StdinPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		return fmt.Errorf("--to %s needs Python: %w: install it with the package pairstream[%s], or name it with --python", t.To, err, t.To)
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() {
		err := child.Wait()
		said.flush()
		ended <- err
		end()
	}()
	wrote := write(ctx, in)
	closed := in.Close()
	if err := <-ended; err != nil {
		return t.failed(python, said.last(), err)
	}
	if errors.Is(closed, os.ErrClosed) { // Wait has closed it
		closed = nil
	}
	return errors.Join(wrote, closed)
}

// failed returns the failure of the process with its last line of output.
func (t *Tracker) failed(python, said string, err error) error {
	hint := ""
	if strings.Contains(said, "No module named pairstream") {
		hint = fmt.Sprintf(": install the Python package with `pip install 'clients/python[%s]'` or the wheel's file, or name the Python that has it with --python", t.To)
	}
	return fmt.Errorf("--to %s: %s: %s%s", t.To, python, cmp.Or(said, err.Error()), hint)
}

// ending forwards lines without the passwords of URLs, and keeps the last bytes.
type ending struct {
	w    io.Writer
	line []byte // the beginning of a line
	kept []byte
}

func (e *ending) Write(p []byte) (int, error) {
	e.line = append(e.line, p...)
	whole := bytes.LastIndexAny(e.line, "\r\n") + 1
	if err := e.pass(whole); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pass forwards the first n waiting bytes.
func (e *ending) pass(n int) error {
	text := display.Redacted(string(e.line[:n]))
	e.line = e.line[n:]
	e.kept = append(e.kept, text...)
	e.kept = e.kept[max(0, len(e.kept)-4096):]
	_, err := io.WriteString(e.w, text)
	return err
}

// flush forwards a last line without a line end. A failed write is ignored, since the error of the process says more.
func (e *ending) flush() { _ = e.pass(len(e.line)) }

// last returns the last line.
func (e *ending) last() string {
	lines := bytes.Split(bytes.TrimSpace(e.kept), []byte("\n"))
	return string(lines[len(lines)-1])
}
