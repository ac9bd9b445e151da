// Package scoring is the discriminator as a service: it reads batches, lets Con-D score their candidates, and writes
// scored batches. One input gives one output, in order.
package scoring

import (
	"context"
	"errors"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/service/samples"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

type stage struct {
	core   *discriminator.Discriminator
	loader *samples.Loader
	meter  *service.Stage
}

func newFactory(core *discriminator.Discriminator, loader *samples.Loader, meter *service.Stage) stream.Factory {
	return func(int, []byte) (stream.Stage, error) { return &stage{core, loader, meter}, nil }
}

// Input implements [stream.Stage].
func (s *stage) Input() schemas.Topic { return schemas.Batches }

// Process implements [stream.Stage].
func (s *stage) Process(ctx context.Context, rec stream.Record, out stream.Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return stream.Poison(err)
	}
	switch r := value.(type) {
	case *schemas.Batch:
		end := s.meter.Batch()
		scored, err := s.score(ctx, r)
		end()
		if err != nil {
			return err
		}
		s.meter.PairsIn(len(r.Samples))
		s.meter.PairsOut(len(scored.Samples))
		return out.Emit(schemas.Scored, scored, out.After(rec, nil))
	case *schemas.Seal:
		return out.Emit(schemas.Scored, r, out.After(rec, nil))
	default:
		return stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
	}
}

// score loads what the batch refers to. The encoder has read every image before, so one that cannot be had now is a
// fault of the bucket, and worth waiting for.
func (s *stage) score(ctx context.Context, b *schemas.Batch) (*schemas.ScoredBatch, error) {
	input := discriminator.Input{IDs: s.loader.IDs(b)}
	if b.M > 0 {
		pixels, err := s.loader.Images(ctx, b)
		if err != nil {
			return nil, stream.Transient(err)
		}
		input.Pixels = pixels
	}
	return s.core.Score(ctx, b, input)
}

// Flush implements [stream.Stage]; nothing is held back.
func (s *stage) Flush(context.Context, stream.Output) error { return nil }
