package torch

import (
	"context"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/pairstream/pairstream/internal/base/timing"
)

// Meter adds up the busy time of a worker for one user. It is safe for concurrent use; the zero value is ready.
type Meter struct{ busy atomic.Int64 }

// Busy returns the time that the worker has spent on jobs whose contexts carry the meter. Waiting for a turn does not
// count.
func (m *Meter) Busy() time.Duration { return time.Duration(m.busy.Load()) }

type meterKey struct{}

// WithMeter returns a context whose jobs m counts.
func WithMeter(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// timed wraps a job of ctx, if the context carries a meter.
func timed(ctx context.Context, run func(*Scope) error) func(*Scope) error {
	m, ok := ctx.Value(meterKey{}).(*Meter)
	if !ok {
		return run
	}
	return func(s *Scope) error {
		defer timing.Begin(ctx, timing.Compute)()
		started := time.Now()
		defer func() { m.busy.Add(int64(time.Since(started))) }()
		return run(s)
	}
}

// labelled wraps a job of ctx, so that profiles of the processor count it with the labels of ctx ([pprof.WithLabels]).
func labelled(ctx context.Context, run func(*Scope) error) func(*Scope) error {
	return func(s *Scope) error {
		pprof.SetGoroutineLabels(ctx)
		defer pprof.SetGoroutineLabels(context.Background())
		return run(s)
	}
}
