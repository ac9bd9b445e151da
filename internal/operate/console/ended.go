package console

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

// begin returns the time of the first pair that the log still has, or zero before there is one.
func (f *flow) begin(ctx context.Context) (time.Time, error) {
	if !f.began.IsZero() {
		return f.began, nil
	}
	log := f.s.o.Log
	var first time.Time
	var errs []error
	for lane := range log.Config().Lanes {
		b, err := log.Bounds(ctx, schemas.Pairs, lane)
		if err != nil || b.End == b.Start {
			errs = append(errs, err)
			continue
		}
		for rec, err := range log.Records(ctx, schemas.Pairs, lane, stream.Position{Offset: b.Start}, b.End) {
			errs = append(errs, err)
			if err == nil && (first.IsZero() || rec.Time.Before(first)) {
				first = rec.Time
			}
			break
		}
	}
	if err := errors.Join(errs...); err != nil {
		return time.Time{}, err
	}
	f.began = first
	return first, nil
}

// conclude shows totals instead of rates when nothing is left to do. began is the time of the first pair; zero if it is
// not known.
func (v *flowView) conclude(s *inspect.Status, began time.Time, size int64) {
	if v.State != "done" && (v.State != "idle" || v.Pairs == 0) {
		return
	}
	v.Over = true
	var ended time.Time
	for i, stage := range s.Stages {
		out := &v.Stages[i]
		pairs := made(s, stage, size)
		switch stage.Name {
		case "encoder", "indexer":
			pairs = min(pairs, v.Pairs) // the marks of ended lanes are records too
			out.Made, out.Unit = pairs, "pairs"
		default:
			out.Made, out.Unit = made(s, stage, 1), "mini-batches"
		}
		if stage.LastProgress == nil {
			continue
		}
		if stage.LastProgress.After(ended) {
			ended = *stage.LastProgress
		}
		if took := stage.LastProgress.Sub(began); !began.IsZero() && took > 0 {
			out.Mean = float64(pairs) / took.Seconds()
		}
	}
	if v.State == "done" && !began.IsZero() && ended.After(began) {
		v.Sum += fmt.Sprintf(" It took %s.", span(ended.Sub(began)))
		v.Ended = ended
	}
}
