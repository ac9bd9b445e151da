package service

import (
	"context"
	"time"

	"github.com/pairstream/pairstream/internal/phase"
	"github.com/pairstream/pairstream/internal/tracing"
	"github.com/pairstream/pairstream/trainer"
)

// traces follows mini-batches with sampled pairs. The zero value follows none.
type traces struct {
	tracer  *tracing.Tracer
	open    []tracing.Subject // of the open step
	between time.Time         // when the first of them began
}

// timed records a span of a batch that is followed, with the phases of the work that ctx is for.
func timed(ctx context.Context, tracer *tracing.Tracer, about []tracing.Subject, name string) (context.Context, func()) {
	if about == nil {
		return ctx, func() {}
	}
	from, phases := time.Now(), new(phase.Collector)
	return phase.With(ctx, phases), func() {
		tracer.Record(about, tracing.Span{Name: Name + " " + name, From: from, To: time.Now(), Within: phases.List()})
	}
}

// trace begins to follow a batch, if it has sampled pairs.
func (f *feed) trace(w *work) {
	if w.about = f.log.Tracer().Of(w.batch); w.about != nil {
		f.log.Waited(Name, &w.rec)
	}
}

// makeStep makes a step on a batch, or a part of one. The span of a step links to all its batches that are followed.
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
		t.tracer.Record(tracing.Step(t.open, result.Step), tracing.Span{Name: Name + " step", From: t.between, To: time.Now(), Root: true})
		t.open = nil
	}
	return result, err
}
