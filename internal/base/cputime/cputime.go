// Package cputime tells how much processor time each part of a process takes.
//
// In come goroutines that [As] names by their part, out goes the processor time of each part. What such goroutines
// start is of the same part. A tensor worker's thread counts for the part that asked it. The times are those of a
// profile with a hundred samples a second of each busy processor, so they are whole hundredths of a second.
//
// Threads that Go has not started count for no part: those that share an operation of tensors on several processors.
// One process has one profile at a time.
package cputime

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/google/pprof/profile"
)

// label is the key in the profile's labels.
const label = "stage"

// As lets the calling goroutine, and those that it starts from now on, count for a part. So does work that is done for
// the context that it returns.
func As(ctx context.Context, part string) context.Context {
	ctx = pprof.WithLabels(ctx, pprof.Labels(label, part))
	pprof.SetGoroutineLabels(ctx)
	return ctx
}

// Do lets what do does count for a part, wherever it is called.
func Do(ctx context.Context, part string, do func()) {
	pprof.Do(ctx, pprof.Labels(label, part), func(context.Context) { do() })
}

// Recorder is a profile that is being taken.
type Recorder struct{ raw bytes.Buffer }

// Start begins to count. It fails while somebody else takes a profile of the processor.
func Start() (*Recorder, error) {
	r := new(Recorder)
	if err := pprof.StartCPUProfile(&r.raw); err != nil {
		return nil, fmt.Errorf("beginning to count processor time: %w", err)
	}
	return r, nil
}

// Stop ends the count and returns the time of each part. What is of no part has an empty name.
func (r *Recorder) Stop() (map[string]time.Duration, error) {
	pprof.StopCPUProfile()
	p, err := profile.Parse(&r.raw)
	if err != nil {
		return nil, fmt.Errorf("reading the profile of the processor: %w", err)
	}
	spent := map[string]time.Duration{}
	for _, s := range p.Sample {
		part := ""
		if names := s.Label[label]; len(names) > 0 {
			part = names[0]
		}
		spent[part] += time.Duration(s.Value[len(s.Value)-1]) // the last value of a profile of the processor is in nanoseconds
	}
	return spent, nil
}
