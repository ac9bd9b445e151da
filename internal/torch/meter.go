package torch

import (
	"context"
	"sync/atomic"
	"time"
)

// Meter adds up how long a worker was busy for somebody. It is safe for concurrent use; the zero value is ready.
type Meter struct{ busy, waited atomic.Int64 }

// Busy returns the time that the worker has spent on jobs of contexts that carry the meter. Waiting for a turn does not
// count.
func (m *Meter) Busy() time.Duration { return time.Duration(m.busy.Load()) }

// Waited returns the time that such jobs have waited for their turn.
func (m *Meter) Waited() time.Duration { return time.Duration(m.waited.Load()) }

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
	asked := time.Now()
	return func(s *Scope) error {
		started := time.Now()
		m.waited.Add(int64(started.Sub(asked)))
		defer func() { m.busy.Add(int64(time.Since(started))) }()
		return run(s)
	}
}
