package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/base/instructions"
	"github.com/pairstream/pairstream/internal/base/machine"
)

// childCommand, followed by a kind of work, makes this program one side of a row.
const childCommand = "child"

// job is the first line that a side reads. It describes the work that follows.
type job struct {
	Threads int                `json:"threads"`
	Folder  string             `json:"folder"` // of inputs and outputs
	Options map[string]float64 `json:"options"`
	Preset  string             `json:"preset,omitempty"`  // of the model
	Variant string             `json:"variant,omitempty"` // of a peer's program
	// Precision is the type of what models multiply on the processor; empty: float32.
	Precision string `json:"precision,omitempty"`
	Device    string `json:"device,omitempty"` // computes tensors; empty: the processor
	Server    string `json:"server,omitempty"` // program that serves a folder as buckets of S3; empty: files are read from the disk
}

func (j job) option(name string) int { return int(j.Options[name]) }

func (j job) path(name string) string { return filepath.Join(j.Folder, name) }

// answer is a line that a side writes after each command. A side that measures itself says how long the piece of work
// took. Values hold whatever else the row wants to know.
type answer struct {
	Seconds    float64              `json:"seconds"`
	CPUSeconds float64              `json:"cpu_seconds"`
	PeakBytes  float64              `json:"peak_bytes"` // resident, since the side began
	Values     map[string]float64   `json:"values,omitempty"`
	Series     map[string][]float64 `json:"series,omitempty"`
	About      map[string]string    `json:"about,omitempty"` // the first answer of a peer: its libraries
	Error      string               `json:"error,omitempty"`
}

// side is a running process that does one side's work.
type side struct {
	name  string
	about map[string]string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
}

// ours starts this program as a side.
func (b *bench) ours(ctx context.Context, kind string, j job) (*side, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return b.start(ctx, "pairstream's "+kind, j, append(append([]string{self}, b.self...), childCommand, kind)...)
}

func (b *bench) start(ctx context.Context, name string, j job, command ...string) (*side, error) {
	j.Threads, j.Device = b.threads, b.device
	if j.Folder == "" {
		j.Folder = b.folder
	}
	cpus := "0-" + strconv.Itoa(b.threads-1)
	s := &side{name: name, cmd: exec.CommandContext(ctx, "taskset", append([]string{"-c", cpus}, command...)...)}
	threads := strconv.Itoa(b.threads)
	s.cmd.Env = os.Environ()
	for _, variable := range []string{"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOMAXPROCS"} {
		s.cmd.Env = append(s.cmd.Env, variable+"="+threads)
	}
	if b.avx2 {
		s.cmd.Env = append(s.cmd.Env, instructions.Environment()...)
	}
	s.cmd.Stderr = os.Stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	line, err := json.Marshal(j)
	var first answer
	if err == nil {
		first, err = s.ask(string(line))
	}
	s.about = first.About
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// ask sends one line and waits for the answer.
func (s *side) ask(line string) (answer, error) {
	if _, err := io.WriteString(s.in, line+"\n"); err != nil {
		return answer{}, fmt.Errorf("asking %s: %w", s.name, err)
	}
	raw, err := s.out.ReadBytes('\n')
	if err != nil {
		return answer{}, fmt.Errorf("waiting for %s: %w", s.name, err)
	}
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return answer{}, fmt.Errorf("reading the answer of %s: %w", s.name, err)
	}
	if a.Error != "" {
		return answer{}, fmt.Errorf("%s: %s", s.name, a.Error)
	}
	return a, nil
}

// close ends the process, which may still be at work when its row has failed.
func (s *side) close() error {
	if s == nil {
		return nil
	}
	err := s.in.Close()
	if waited := s.cmd.Wait(); waited != nil && !strings.Contains(waited.Error(), "signal") {
		err = errors.Join(err, fmt.Errorf("ending %s: %w", s.name, waited))
	}
	return err
}

// closing closes a side, and keeps the error of that unless there is one already.
func closing(s *side, err *error) {
	if ended := s.close(); *err == nil {
		*err = ended
	}
}

// race lets the sides run a command in turns and returns their answers. The first warmUp turns do not count.
func race(warmUp, turns int, command string, sides ...*side) ([][]answer, error) {
	answers := make([][]answer, len(sides))
	for turn := range warmUp + turns {
		for i, s := range sides {
			a, err := s.ask(command)
			if err != nil {
				return nil, err
			}
			if turn >= warmUp {
				answers[i] = append(answers[i], a)
			}
		}
	}
	return answers, nil
}

// worker is pairstream's side of a row, by command. A command fills in Values and Series; the caller measures how long
// it takes.
type worker map[string]func(ctx context.Context, a *answer) error

// atEnd names the command that frees what a worker holds.
const atEnd = "end"

// ending returns it.
func ending(free func() error) func(context.Context, *answer) error {
	return func(context.Context, *answer) error { return free() }
}

// unchecked is the check of a side whose results nobody compares.
func unchecked(context.Context, *answer) error { return nil }

// workers maps a kind to a function that makes its worker. What that function does before it returns is not measured.
var workers = map[string]func(context.Context, job) (worker, error){
	"group":          newGroupWorker,
	"kmeans":         newKMeansWorker,
	"live":           newLiveWorker,
	"walk":           newWalkWorker,
	"codes":          newCodesWorker,
	"step":           newStepWorker,
	"decode":         newDecodeWorker,
	"encode":         newEncodeWorker,
	"plumbing":       newPlumbingWorker,
	"plumbing-kafka": newKafkaWorker,
	"base":           newBaseWorker,
	"produce":        newProduceWorker,
	"memory":         newMemoryWorker,
	"products":       newProductsWorker,
	"integers":       newIntegersWorker,
	"layers":         newLayersWorker,
	"decoder":        newDecoderWorker,
	"fetch":          newFetchWorker,
	"log":            newLogWorker,
	"hashes":         newHashesWorker,
	"web":            newWebWorker,
}

// serve answers commands until there are no more.
func serve(ctx context.Context, kind string, in io.Reader, out io.Writer) (err error) {
	lines := bufio.NewReader(in)
	encoder := json.NewEncoder(out)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	var j job
	if err := json.Unmarshal(first, &j); err != nil {
		return fmt.Errorf("reading the job: %w", err)
	}
	begin, ok := workers[kind]
	if !ok {
		return fmt.Errorf("no work is called %q", kind)
	}
	w, err := begin(ctx, j)
	if err != nil {
		return encoder.Encode(answer{Error: err.Error()})
	}
	if end, ok := w[atEnd]; ok {
		defer func() { err = errors.Join(err, end(ctx, nil)) }()
	}
	if err := encoder.Encode(answer{}); err != nil {
		return err
	}
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		if err := encoder.Encode(measured(ctx, w, strings.TrimSpace(line))); err != nil {
			return err
		}
	}
}

// measured runs one command and measures it.
func measured(ctx context.Context, w worker, command string) answer {
	a := answer{Values: map[string]float64{}, Series: map[string][]float64{}}
	used, started := machine.ProcessorTime(), time.Now()
	err := fmt.Errorf("no command is called %q", command)
	if do, ok := w[command]; ok {
		err = do(ctx, &a)
	}
	if a.Seconds == 0 {
		a.Seconds = time.Since(started).Seconds()
	}
	a.CPUSeconds += (machine.ProcessorTime() - used).Seconds() // beside what a worker's own processes took
	if err == nil {
		a.PeakBytes, err = memory("VmHWM")
	}
	if err != nil {
		a.Error = err.Error()
	}
	return a
}

// memory reads a size from /proc/self/status, in bytes.
func memory(name string) (float64, error) {
	kilobytes, err := strconv.ParseFloat(strings.TrimSuffix(machine.Field("/proc/self/status", name), " kB"), 64)
	if err != nil {
		return 0, fmt.Errorf("reading %s in /proc/self/status: %w", name, err)
	}
	return kilobytes * 1024, nil
}
