// Package service is the discriminator as a service: it reads batches, lets Con-D score their candidates, and writes
// scored batches. One input gives one output, in order.
package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
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

// recorder writes the drawing of the images into scored batches, because the trainer must see the same images. Plain
// images need no record.
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
	bound       *discriminator.Bound
	gone        func(schemas.ImageID) bool // names the images that are forgotten; nil: none is
	asked       *prometheus.CounterVec
	instruments *service.Instruments
}

func newFactory(core scorer, loader loader, guarded guardSettings, keep keeping, gauges gauges, instruments *service.Instruments) stream.Factory {
	return func(lane int, state []byte) (stream.Stage, error) {
		mark, err := readMark(state)
		if err != nil {
			return nil, fmt.Errorf("lane %d: %w", lane, err)
		}
		g, err := newGuard(guarded, lane, mark.Guard, instruments.Log, gauges)
		s := &stage{core: core, loader: loader, guard: g, gone: keep.gone, asked: keep.asked, instruments: instruments}
		if keep.scores > 0 {
			s.kept, s.bound = discriminator.NewKept(keep.scores, keep.bytes), keep.bound(mark)
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

// emit writes the record made from rec.
func (s *stage) emit(rec stream.Record, made schemas.Record, out stream.Output) error {
	state, err := s.mark()
	if err != nil {
		return err
	}
	return out.Emit(schemas.Scored, made, out.After(rec, state))
}

// score loads the images and texts of a batch, unless Con-D is not asked. The encoder has read every image before.
// Images that are gone for good are masked in the record. Any other error is the bucket's, and score is retried.
func (s *stage) score(ctx context.Context, b *schemas.Batch) (*schemas.ScoredBatch, error) {
	input := discriminator.Input{IDs: s.loader.IDs(b)}
	if b.M == 0 {
		return s.core.Score(ctx, b, input)
	}
	if err := s.guard.enter(ctx, b); err != nil {
		return nil, err
	}
	if s.guard.off() && !s.guard.settings.keeps {
		return s.unscored(ctx, b, input, nil)
	}
	var err error
	if input.Pixels, input.Masked, err = s.loader.Images(ctx, b, s.hold(b, &input)); err != nil {
		return nil, stream.Transient(err)
	}
	s.instruments.Masked(b.Group, input.Masked)
	if s.guard.off() {
		return s.doubted(ctx, b, input, nil)
	}
	if !s.guard.open() {
		return s.ask(ctx, b, input)
	}
	return s.measure(ctx, b, input)
}

// measure lets the guard measure a batch. With plain images Con-D first scores the candidates, even if the guard then
// turns connections off: the bound learns from the scores, and the guard finds them in the cache.
func (s *stage) measure(ctx context.Context, b *schemas.Batch, in discriminator.Input) (scored *schemas.ScoredBatch, err error) {
	if s.kept != nil {
		if scored, err = s.askKept(ctx, b, in); err != nil {
			return nil, err
		}
		in.Kept = s.kept
	}
	confirmed, err := s.guard.measure(ctx, s.core, b, in)
	switch {
	case err != nil:
		return nil, err
	case (s.guard.open() || s.guard.off()) && s.guard.settings.keeps:
		return s.doubted(ctx, b, in, scored)
	case s.guard.open() || s.guard.off():
		return s.unscored(ctx, b, in, confirmed)
	case scored == nil:
		return s.ask(ctx, b, in)
	}
	s.say(scored)
	return scored, nil
}

// hold puts cached encodings of images into the input, and returns their samples as masks so that they are not loaded.
func (s *stage) hold(b *schemas.Batch, in *discriminator.Input) (spared []schemas.Mask) {
	if s.kept == nil {
		return nil
	}
	var samples []int32
	in.Held, samples = s.kept.Hold(b, s.gone)
	for _, i := range samples {
		spared = append(spared, schemas.Mask{Sample: i})
	}
	return spared
}

// ask scores a batch, with cached results of earlier batches.
func (s *stage) ask(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	scored, err := s.askKept(ctx, b, in)
	if err == nil {
		s.say(scored)
	}
	return scored, err
}

// say writes the threshold, and the check if it has changed, into a batch with candidates.
func (s *stage) say(scored *schemas.ScoredBatch) {
	scored.High = s.guard.state.High
	if s.guard.changed {
		scored.Check = s.guard.check(nil)
	}
}

func (s *stage) askKept(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
	if s.kept == nil {
		return s.core.Score(ctx, b, in)
	}
	in.Kept, in.Bound = s.kept, s.bound
	before := s.kept.Counts()
	scored, err := s.core.Score(ctx, b, in)
	after := s.kept.Counts()
	s.asked.WithLabelValues("kept").Add(float64(after.Kept - before.Kept))
	s.asked.WithLabelValues("computed").Add(float64(after.Computed - before.Computed))
	s.asked.WithLabelValues("ruled_out").Add(float64(after.RuledOut - before.RuledOut))
	return scored, err
}

// doubted returns the batch with its candidates, none of which is a connection, since connections are off. scored is nil
// unless Con-D was asked.
func (s *stage) doubted(
	ctx context.Context, b *schemas.Batch, in discriminator.Input, scored *schemas.ScoredBatch,
) (_ *schemas.ScoredBatch, err error) {
	if scored == nil {
		if scored, err = s.askKept(ctx, b, in); err != nil {
			return nil, err
		}
	}
	scored.High, scored.Check = 1, s.guard.check(nil)
	return scored, nil
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

// keeping says how much a lane keeps, and of which Con-D. The zero value keeps nothing.
type keeping struct {
	scores int
	bytes  int64
	model  string
	level  float64                    // probability from which a candidate is no negative for the trainer
	gone   func(schemas.ImageID) bool // names the images that are forgotten; nil: none is
	asked  *prometheus.CounterVec
}

// register makes the metric.
func (k *keeping) register(instruments *service.Instruments) error {
	k.asked = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pairstream_discriminator_scores_total",
		Help: "Pairs of scored batches with COND_IMAGES=plain, by whether their score was kept or computed, or Con-D's vectors ruled them out.",
	}, []string{"from"})
	return instruments.Register(k.asked)
}

// bound goes on from a mark. Another Con-D or level begins to learn anew.
func (k *keeping) bound(m mark) *discriminator.Bound {
	if m.Bound != nil && m.Bound.Model == k.model && m.Bound.Level == k.level {
		return m.Bound
	}
	return discriminator.NewBound(k.model, k.level)
}

// mark is the state of a lane: that of the guard, and what candidates are ruled out.
type mark struct {
	Guard json.RawMessage      `json:"guard,omitempty"`
	Bound *discriminator.Bound `json:"bound,omitempty"`
}

// readMark reads a state. That of augmented images, and of a discriminator that ruled nothing out, is the guard's
// alone.
func readMark(raw []byte) (mark, error) {
	var m mark
	if len(raw) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("reading the state %.512q of the discriminator (a newer one may have written it): %w", raw, err)
	}
	if m.Bound == nil {
		return mark{Guard: raw}, nil
	}
	return m, nil
}

// mark returns the state for a mark.
func (s *stage) mark() ([]byte, error) {
	guarded, err := s.guard.mark()
	if err != nil || s.bound == nil {
		return guarded, err
	}
	raw, err := json.Marshal(mark{Guard: guarded, Bound: s.bound})
	if err != nil {
		return nil, fmt.Errorf("writing the state of the discriminator: %w", err)
	}
	return raw, nil
}
