// Package service is the discriminator as a service: it reads batches, lets Con-D score their candidates, and writes
// scored batches. One input gives one output, in order.
package service

import (
	"context"
	"errors"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// scorer is the part of [discriminator.Discriminator] that the stage drives.
type scorer interface {
	Score(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error)
}

// loader is the part of [dataset.Loader] that the stage drives.
type loader interface {
	IDs(b *schemas.Batch) [][]int32
	Images(ctx context.Context, b *schemas.Batch, known []schemas.Mask) ([]float32, []schemas.Mask, error)
}

var (
	_ scorer = (*discriminator.Discriminator)(nil)
	_ loader = (*dataset.Loader)(nil)
)

// recorder writes into what was scored how its images were drawn: the trainer must see the same ones.
type recorder struct {
	scorer
	drawn string
}

// Score implements scorer.
func (r recorder) Score(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	scored, err := r.scorer.Score(ctx, b, in)
	if err == nil && b.M > 0 { // else no image was loaded
		scored.Drawn = r.drawn
	}
	return scored, err
}

type stage struct {
	core        scorer
	loader      loader
	instruments *service.Instruments
}

func newFactory(core scorer, loader loader, instruments *service.Instruments) stream.Factory {
	return func(int, []byte) (stream.Stage, error) { return &stage{core, loader, instruments}, nil }
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
		end := s.instruments.Batch()
		scored, err := s.score(ctx, r)
		end()
		if err != nil {
			return err
		}
		s.instruments.PairsIn(len(r.Samples))
		s.instruments.PairsOut(len(scored.Samples))
		return out.Emit(schemas.Scored, scored, out.After(rec, nil))
	case *schemas.Seal:
		return out.Emit(schemas.Scored, r, out.After(rec, nil))
	default:
		return stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
	}
}

// score loads what the batch refers to. The encoder has read every image before. One that is gone for ever is masked, and
// the record says so; any other fault is one of the bucket, and worth waiting for.
func (s *stage) score(ctx context.Context, b *schemas.Batch) (*schemas.ScoredBatch, error) {
	input := discriminator.Input{IDs: s.loader.IDs(b)}
	if b.M > 0 {
		var err error
		if input.Pixels, input.Masked, err = s.loader.Images(ctx, b, nil); err != nil {
			return nil, stream.Transient(err)
		}
		s.instruments.Masked(b.Group, input.Masked)
	}
	return s.core.Score(ctx, b, input)
}

// Flush implements [stream.Stage]; nothing is held back.
func (s *stage) Flush(context.Context, stream.Output) error { return nil }
