package service

import (
	"context"
	"time"

	"github.com/pairstream/pairstream/internal/base/timing"
	"github.com/pairstream/pairstream/internal/log/tracing"
	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// joinFunc makes the note of a sum from the notes of all ranks. Rank 0 alone calls it.
type joinFunc func(notes [][]byte) ([]byte, error)

// sumFunc adds up a part with those of the other ranks.
type sumFunc func(ctx context.Context, own ranks.Part, join joinFunc) (ranks.Part, error)

// shares makes the steps of a rank together with the other ranks: each learns from its own batches, and all add up
// their shares.
type shares struct {
	core  sharedCore
	sum   sumFunc
	slots slots // of this rank's batches
	flow  *flow // of the open step; nil: this rank has given nothing of it
}

// learn learns from a batch of this rank. The share begins to leave with the last one of the step.
func (s *shares) learn(ctx context.Context, b *schemas.ScoredBatch, in trainer.Input, number int) (*trainer.Result, error) {
	if number+1 != s.slots.first+s.slots.own {
		return s.core.Learn(ctx, b, in, number, nil)
	}
	s.flow = newFlow(ctx, s.core.Runs(), s.sum)
	return s.core.Learn(ctx, b, in, number, s.flow.give)
}

// complete gives the rest of this rank's share, and completes the step with the sum.
func (s *shares) complete(ctx context.Context, join joinFunc) error {
	step := s.core.Steps()
	f := s.flow
	if s.flow = nil; f == nil { // the step is short
		f = newFlow(ctx, s.core.Runs(), s.sum)
	}
	own, err := s.core.TakeShare(ctx, f.give)
	if err != nil {
		return err
	}
	grads, err := f.wait()
	if err != nil {
		return err
	}
	part, err := partOf(step, own, s.slots)
	if err != nil {
		return err
	}
	if part, err = s.sum(ctx, part, join); err != nil {
		return err
	}
	total, rate, err := shareOf(step, part, s.slots)
	if err != nil {
		return err
	}
	total.Grads = grads
	return s.core.Complete(ctx, total, rate)
}

// flow adds up the gradients of a step, run by run, while this rank computes those of later runs. All ranks add the
// runs in the same order. A flow ends with its context, or when it has all runs.
type flow struct {
	given chan [][]float32 // by run
	ended chan struct{}
	sum   [][]float32 // by parameter
	err   error
}

func newFlow(ctx context.Context, runs [][]int, sum sumFunc) *flow {
	f := &flow{given: make(chan [][]float32, len(runs)), ended: make(chan struct{})}
	for _, run := range runs {
		f.sum = append(f.sum, make([][]float32, len(run))...)
	}
	go func() {
		defer close(f.ended)
		for _, run := range runs {
			if f.err = f.add(ctx, run, sum); f.err != nil {
				return
			}
		}
	}()
	return f
}

// add adds up the next run.
func (f *flow) add(ctx context.Context, run []int, sum sumFunc) error {
	select {
	case own := <-f.given:
		part, err := sum(ctx, ranks.Part{Vectors: own}, func([][]byte) ([]byte, error) { return nil, nil })
		if err != nil {
			return err
		}
		for k, i := range run {
			f.sum[i] = part.Vectors[k]
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give takes the next run of this rank.
func (f *flow) give(_ int, grads [][]float32) { f.given <- grads }

// wait returns the sums of all runs.
func (f *flow) wait() ([][]float32, error) {
	<-f.ended
	return f.sum, f.err
}

// traces follows mini-batches with sampled pairs. The zero value follows none.
type traces struct {
	tracer  *tracing.Tracer
	open    []tracing.Subject // of the open step
	between time.Time         // when the first of them began
}

// timed records a span of a followed batch, with the phases of the work that ctx is for.
func timed(ctx context.Context, tracer *tracing.Tracer, about []tracing.Subject, name string) (context.Context, func()) {
	if about == nil {
		return ctx, func() {}
	}
	from, phases := time.Now(), new(timing.Collector)
	return timing.With(ctx, phases), func() {
		tracer.Record(about, tracing.Span{Stage: Name, Name: Name + " " + name, From: from, To: time.Now(), Within: phases.List(), Lane: -1})
	}
}

// trace begins to follow a batch, if it has sampled pairs.
func (f *feed) trace(w *work) {
	if w.about = f.log.Tracer().Of(w.batch); w.about != nil {
		f.log.Waited(Name, &w.rec)
	}
}

// makeStep makes a step on a batch, or a part of one. The span of a step links to all its followed batches.
func (l *loop) makeStep(ctx context.Context, w work) (*trainer.Result, error) {
	t := &l.traces
	if len(t.open) == 0 {
		t.between = time.Now()
	}
	t.open = append(t.open, w.about...)
	ctx, worked := timed(ctx, t.tracer, w.about, "work")
	end := l.metrics.Batch()
	result, err := l.core.Step(ctx, w.batch, w.input)
	end()
	worked()
	if err == nil && result.Updated {
		t.tracer.Record(tracing.Step(t.open, result.Step), tracing.Span{Stage: Name, Name: Name + " step", From: t.between, To: time.Now(), Root: true, Lane: -1})
		t.open = nil
	}
	return result, err
}
