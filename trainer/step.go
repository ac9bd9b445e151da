package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
)

// ErrNotFinite marks a step whose loss is no finite number; the weights are as before it.
var ErrNotFinite = errors.New("loss is not a finite number")

// Losses are a step's losses before their weights, and their weighted sum. A loss of weight 0 is 0.
type Losses struct {
	ITC, ITM, MLM, Uni, Total float64
}

// Counts are what a step's batch was made of.
type Counts struct {
	Samples int
	// Candidates were scored by Con-D, Confirmed of them above High.
	Candidates, Confirmed int
	// Negatives, Ambiguous and Connections are anchors of both directions by the class of their hardest candidate;
	// Alone are those that had none.
	Negatives, Ambiguous, Connections, Alone int
	// MatchPairs went into ITM; Dropped anchors gave none.
	MatchPairs, Dropped int
	// MaskedRows and MaskedTokens went into MLM.
	MaskedRows, MaskedTokens int
}

// Result is what came of a step.
type Result struct {
	Step     int64   // its number, from 0
	Rate     float64 // learning rate
	Losses   Losses
	Counts   Counts
	Features schemas.FeatureBlock // of the weights before the step's update
}

// Step trains on one batch. An input that was sent is used up.
func (t *Trainer) Step(ctx context.Context, b *schemas.ScoredBatch, in Input) (*Result, error) {
	defer in.Free()
	if err := t.check(b, in); err != nil {
		return nil, fmt.Errorf("training on batch %d of group %s, epoch %d: %w", b.Sequence, b.Group, b.Epoch, err)
	}
	r := &Result{Step: t.step, Rate: t.options.Schedule.At(t.step)}
	err := t.worker.Do(ctx, func(s *torch.Scope) error {
		if err := t.update(s, r, b, in); err != nil {
			return err
		}
		t.step++
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("training on batch %d of group %s, epoch %d, at step %d: %w", b.Sequence, b.Group, b.Epoch, r.Step, err)
	}
	return r, nil
}

// update runs the step inside the worker.
func (t *Trainer) update(s *torch.Scope, r *Result, b *schemas.ScoredBatch, in Input) error {
	if err := t.optimizer.ZeroGrad(); err != nil {
		return err
	}
	t.momentum.follow(s, t.model)
	f, err := t.forward(s, b, in, t.masker(b))
	if err != nil {
		return err
	}
	total := f.total(s, t.options)
	r.Losses = f.losses(total)
	if math.IsNaN(r.Losses.Total) || math.IsInf(r.Losses.Total, 0) {
		return fmt.Errorf("%w: %+v", ErrNotFinite, r.Losses)
	}
	if total != nil {
		s.Backward(total)
	}
	if err := t.optimizer.Step(r.Rate); err != nil {
		return err
	}
	r.Counts = f.counts
	r.Features = features(b, f, r.Step)
	t.momentum.enqueue(s, b, f)
	return nil
}

// features publishes the unit features that the batch had before the update, in training order.
func features(b *schemas.ScoredBatch, f *forward, step int64) schemas.FeatureBlock {
	block := schemas.FeatureBlock{
		Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Step: step,
		Positions: make(schemas.Int32s, len(b.Samples)),
		Dim:       int32(f.image.Size(1)),
		V:         schemas.NewFloat16s(f.image.Float32s()),
		T:         schemas.NewFloat16s(f.text.Float32s()),
	}
	for i := range b.Samples {
		block.Positions[i] = b.Samples[i].Position
	}
	return block
}
