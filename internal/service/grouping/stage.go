// Package grouping is the grouper as a service: it feeds a lane's groups, neighbours, embeddings and features to the
// core in the order in which the core asks for them, and writes batches.
//
// A crash takes a lane back to the start of its group: every batch carries the mark of the place before the group's
// manifest, and the core, given the same records again, makes the same batches.
package grouping

import (
	"context"
	"errors"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

type stage struct {
	core    *grouper.Lane
	options grouper.Options
	meter   *service.Stage
	start   stream.Mark // of the group in hand
}

func newFactory(o grouper.Options, meter *service.Stage) stream.Factory {
	return func(lane int, _ []byte) (stream.Stage, error) {
		core, err := grouper.NewLane(o, lane)
		if err != nil {
			return nil, err
		}
		return &stage{core: core, options: o, meter: meter}, nil
	}
}

// Input implements [stream.Stage].
func (s *stage) Input() schemas.Topic { return s.core.Needs() }

// Process implements [stream.Stage].
func (s *stage) Process(ctx context.Context, rec stream.Record, out stream.Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return stream.Poison(err)
	}
	if s.core.BetweenGroups() {
		s.start = out.Before(rec, nil)
	}
	defer s.meter.Batch()()
	if g, ok := value.(*schemas.Group); ok {
		s.meter.PairsIn(int(g.Count))
	}
	err = s.core.Add(ctx, value, rec.Seq, func(made schemas.Record) error {
		if b, ok := made.(*schemas.Batch); ok {
			s.meter.PairsOut(len(b.Samples))
		}
		return out.Emit(schemas.Batches, made, s.resume(made, rec, out))
	})
	if errors.Is(err, grouper.ErrUnexpected) {
		return stream.Poison(err)
	}
	return err
}

// resume is the start of the group, or, once nothing of it remains to be made, the place after it.
func (s *stage) resume(made schemas.Record, rec stream.Record, out stream.Output) stream.Mark {
	b, ok := made.(*schemas.Batch)
	if ok && !(int(b.Epoch) == s.options.Epochs-1 && b.Sequence == b.Batches-1) {
		return s.start
	}
	return out.After(rec, nil)
}

// Flush implements [stream.Stage]; nothing is held back.
func (s *stage) Flush(context.Context, stream.Output) error { return nil }
