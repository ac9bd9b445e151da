package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// ErrNotFinite marks a model whose features are no longer finite numbers. The weights are as before the step.
var ErrNotFinite = errors.New("not a finite number")

// Step trains on one batch. It uses up an input that was sent.
func (t *Trainer) Step(ctx context.Context, b *schemas.ScoredBatch, in Input) (*Result, error) {
	return t.stepOn(ctx, b, in, stepSlot{number: t.open.batches}, func(s *torch.Scope, r *Result) error {
		if t.open.batches < t.options.StepBatches {
			return nil
		}
		r.Updated = true
		return t.complete(s, r.Rate)
	})
}

// stepSlot is that of a batch in the open step.
type stepSlot struct {
	number int
	give   Give // not nil: the batch is the last of this process
}

// stepOn learns from a batch of the open step, then calls then.
func (t *Trainer) stepOn(ctx context.Context, b *schemas.ScoredBatch, in Input, at stepSlot, then func(*torch.Scope, *Result) error) (*Result, error) {
	defer in.Free()
	if err := t.check(b, in); err != nil {
		return nil, fmt.Errorf("training on batch %d of group %s, epoch %d: %w", b.Sequence, b.Group, b.Epoch, err)
	}
	r := &Result{Step: t.step, Rate: t.options.Schedule.During(t.step, in.Decay)}
	t.rate = r.Rate
	err := t.worker.Do(ctx, func(s *torch.Scope) error {
		if err := t.learn(s, r, b, in, at); err != nil {
			return err
		}
		return then(s, r)
	})
	if err != nil {
		return nil, fmt.Errorf("training on batch %d of group %s, epoch %d, at step %d: %w", b.Sequence, b.Group, b.Epoch, r.Step, err)
	}
	return r, nil
}

// learn adds a batch to the open step, inside the worker.
func (t *Trainer) learn(s *torch.Scope, r *Result, b *schemas.ScoredBatch, in Input, at stepSlot) error {
	if err := t.optimizer.ZeroGrad(); err != nil {
		return err
	}
	t.follow()
	x, err := t.receive(s, in)
	if err == nil && t.options.Gathers() {
		x.others, err = t.open.others(at.number)
	}
	if err != nil {
		return err
	}
	f, total, err := t.tryForward(s, r, b, x, masksOf(b, in))
	if err != nil {
		return err
	}
	r.Counts = f.counts
	if r.Features = features(b, f, t.batches+int64(at.number)); r.SetAside != "" || wasSetAside(f.masks) {
		t.open.add(nil)
		return r.Features.Validate() // a row that is not a unit vector must not travel
	}
	if k, wanted := t.momentum.keep(s, f); wanted {
		t.open.keys = append(t.open.keys, k)
	}
	switch {
	case total != nil && at.give != nil:
		return t.lastBackward(s, total, at.give)
	case total != nil:
		s.Backward(total)
	}
	grads, err := t.takeGrads(s)
	if err == nil {
		t.open.add(grads)
	}
	return err
}

// follow moves the momentum encoder once for the open step.
func (t *Trainer) follow() {
	if !t.followed {
		t.momentum.follow(t.model)
	}
	t.followed = true
}

// tryForward computes the losses. Where they are not finite it tries again, and in the end sets the batch aside. A
// fault of the device may pass; one of the batch comes back for ever. Features that are not finite mean broken weights,
// which no other batch would mend.
func (t *Trainer) tryForward(s *torch.Scope, r *Result, b *schemas.ScoredBatch, x tensors, masks []schemas.Mask) (*forward, *torch.Tensor, error) {
	for try := 1; ; try++ {
		f, err := t.forward(s, b, x, masks, t.masker(b))
		if err != nil {
			return nil, nil, err
		}
		total := f.total(s, t.options)
		r.Losses = f.losses(s, total)
		if finite(r.Losses.Total) {
			return f, total, nil
		}
		if !finite(s.SumAll(f.allImages).Item() + s.SumAll(f.allTexts).Item()) {
			return nil, nil, brokenWeights(fmt.Sprintf("%+v", r.Losses))
		}
		if try >= t.options.Tries {
			r.SetAside = fmt.Sprintf("loss is not a finite number in %d tries: %+v", try, r.Losses)
			r.Losses = Losses{}
			f.masks = allMasked(len(b.Samples))
			return f, nil, nil
		}
	}
}

func brokenWeights(what string) error {
	return fmt.Errorf("features: %w: %s: the weights are broken; go back to an earlier checkpoint, with a lower learning rate", ErrNotFinite, what)
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// reasonNotFinite is the reason in the masks of a batch that was set aside.
const reasonNotFinite = "not_finite"

// wasSetAside reports whether masks are those of a batch that was set aside when its step was made before.
func wasSetAside(masks []schemas.Mask) bool {
	return slices.ContainsFunc(masks, func(m schemas.Mask) bool { return m.Reason == reasonNotFinite })
}

func allMasked(n int) []schemas.Mask {
	masks := make([]schemas.Mask, n)
	for i := range masks {
		masks[i] = schemas.Mask{Sample: int32(i), Reason: reasonNotFinite}
	}
	return masks
}

// features returns the unit features that the batch had before the update, in training order.
func features(b *schemas.ScoredBatch, f *forward, step int64) schemas.FeatureBlock {
	block := schemas.FeatureBlock{
		Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence, Step: step,
		Positions: make(schemas.Int32s, len(b.Samples)),
		Dim:       int32(f.allImages.Size(1)),
		V:         schemas.NewFloat16s(f.allImages.Float32s()),
		T:         schemas.NewFloat16s(f.allTexts.Float32s()),
		Masked:    f.masks,
	}
	for i := range b.Samples {
		block.Positions[i] = b.Samples[i].Position
	}
	return block
}
