package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/machine"
)

// worker is pairstream's side of a row. Do fills in Values and Series; the caller measures how long it takes.
type worker interface {
	do(ctx context.Context, command string, a *answer) error
}

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
func serve(ctx context.Context, kind string, in io.Reader, out io.Writer) error {
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
	if closer, ok := w.(io.Closer); ok {
		defer func() { err = closer.Close() }()
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
	err := w.do(ctx, command, &a)
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

// unchecked does the one piece of work of a side whose results nobody compares.
func unchecked(command string, run func() error) error {
	switch command {
	case "run":
		return run()
	case "check":
		return nil
	}
	return unknown(command)
}

// unknown returns a worker's error for a command that it does not know.
func unknown(command string) error { return fmt.Errorf("no command is called %q", command) }
