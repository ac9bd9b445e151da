// Package service is the discriminator as a service: it reads batches, lets Con-D score their candidates, and writes
// scored batches. One input gives one output, in order.
package service

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// scorer is the part of [discriminator.Discriminator] that the stage drives.
type scorer interface {
	Score(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error)
	Known(ctx context.Context, b *schemas.Batch, in discriminator.Input, q discriminator.Questions, edits [][]int32) (discriminator.Known, error)
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

// recorder writes into what was scored how its images were drawn: the trainer must see the same ones. With plain images
// there is nothing to write.
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
	guard       *guard
	kept        *discriminator.Kept // nil: images are augmented
	scores      *prometheus.CounterVec
	instruments *service.Instruments
}

// keeping says how many scores a lane keeps. The zero value keeps none.
type keeping struct {
	most   int
	scores *prometheus.CounterVec
}

func newKeeping(most int, instruments *service.Instruments) (keeping, error) {
	k := keeping{most, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pairstream_discriminator_scores_total", Help: "Pairs of scored batches with COND_IMAGES=plain, by whether their score was kept or computed.",
	}, []string{"from"})}
	return k, instruments.Register(k.scores)
}

func newFactory(core scorer, loader loader, guarded guardSettings, keep keeping, gauges gauges, instruments *service.Instruments) stream.Factory {
	return func(lane int, state []byte) (stream.Stage, error) {
		g, err := newGuard(guarded, lane, state, instruments.Log, gauges)
		s := &stage{core: core, loader: loader, guard: g, scores: keep.scores, instruments: instruments}
		if keep.most > 0 {
			s.kept = discriminator.NewKept(keep.most)
		}
		return s, err
	}
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
		return s.emit(rec, scored, out)
	case *schemas.Seal:
		return s.emit(rec, r, out)
	default:
		return stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
	}
}

// emit writes the record that was made of rec.
func (s *stage) emit(rec stream.Record, made schemas.Record, out stream.Output) error {
	state, err := s.guard.mark()
	if err != nil {
		return err
	}
	return out.Emit(schemas.Scored, made, out.After(rec, state))
}

// score loads what the batch refers to, unless Con-D is not asked. The encoder has read every image before. One that is gone
// for ever is masked, and the record says so; any other fault is one of the bucket, and worth waiting for.
func (s *stage) score(ctx context.Context, b *schemas.Batch) (*schemas.ScoredBatch, error) {
	input := discriminator.Input{IDs: s.loader.IDs(b)}
	if b.M == 0 {
		return s.core.Score(ctx, b, input)
	}
	if err := s.guard.enter(ctx, b); err != nil {
		return nil, err
	}
	if s.guard.off() {
		return s.unscored(ctx, b, input, nil)
	}
	var err error
	if input.Pixels, input.Masked, err = s.loader.Images(ctx, b, nil); err != nil {
		return nil, stream.Transient(err)
	}
	s.instruments.Masked(b.Group, input.Masked)
	if !s.guard.open() {
		return s.ask(ctx, b, input)
	}
	confirmed, err := s.guard.measure(ctx, s.core, b, input)
	if err != nil {
		return nil, err
	}
	if s.guard.open() || s.guard.off() {
		return s.unscored(ctx, b, input, confirmed)
	}
	return s.ask(ctx, b, input)
}

// ask scores a batch, with what is kept of earlier ones. The record says the threshold, and what is new of the guard.
func (s *stage) ask(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	scored, err := s.askKept(ctx, b, in)
	if err == nil {
		scored.High = s.guard.state.High
		if s.guard.changed {
			scored.Check = s.guard.check(nil)
		}
	}
	return scored, err
}

func (s *stage) askKept(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	if s.kept == nil {
		return s.core.Score(ctx, b, in)
	}
	in.Kept = s.kept
	asked, found := s.kept.Counts()
	scored, err := s.core.Score(ctx, b, in)
	allAsked, allFound := s.kept.Counts()
	s.scores.WithLabelValues("kept").Add(float64(allFound - found))
	s.scores.WithLabelValues("computed").Add(float64(allAsked - asked - allFound + found))
	return scored, err
}

// unscored returns the batch without its candidates. People may judge those that were confirmed.
func (s *stage) unscored(ctx context.Context, b *schemas.Batch, in discriminator.Input, confirmed *schemas.Confirmed) (*schemas.ScoredBatch, error) {
	bare := *b
	bare.M, bare.I2T, bare.T2I = 0, nil, nil
	scored, err := s.core.Score(ctx, &bare, in)
	if err == nil {
		scored.Check = s.guard.check(confirmed)
	}
	return scored, err
}

// Close implements io.Closer: the lane goes to another owner.
func (s *stage) Close() error {
	s.guard.gauges.drop(s.guard.lane)
	return nil
}

// Flush implements [stream.Stage]; nothing is held back.
func (s *stage) Flush(context.Context, stream.Output) error { return nil }
