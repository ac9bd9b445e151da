package trainer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// With [ITCOptions.Gather] a step has two passes. The first, [Trainer.Prepare], encodes every batch of the step without
// gradients. It gives the features that are published, and the keys. The second learns from every batch as without
// Gather, with the keys of the step's other batches behind its own: [N, N + others + queue]. They stand in the order of
// the step, whatever process has made them. They are constants, as all keys are.
//
// Both passes draw the same dropout, so a batch gives others the keys that it has itself. Masked samples give none. A
// batch that is set aside gives its keys nevertheless: they are known before its loss is, and its features are finite.

// Gathers says whether steps have two passes. A step of one batch has nothing to gather.
func (o Options) Gathers() bool { return o.ITC.Gather && o.StepBatches > 1 && o.ITCWeight > 0 }

// Prepare makes the first pass over the open step's next batch, and returns its features. It does not use the input up.
// The step learns from a batch when all of its batches are prepared.
func (t *Trainer) Prepare(ctx context.Context, b *schemas.ScoredBatch, in Input) (*schemas.FeatureBlock, error) {
	return t.PrepareAt(ctx, b, in, len(t.open.prepared))
}

// PrepareAt does what [Trainer.Prepare] does for the batch of a number in the step, among those of all processes.
func (t *Trainer) PrepareAt(ctx context.Context, b *schemas.ScoredBatch, in Input, number int) (*schemas.FeatureBlock, error) {
	var block schemas.FeatureBlock
	err := t.check(b, in)
	if err == nil {
		err = t.worker.Do(ctx, func(s *torch.Scope) error {
			block, err = t.prepare(s, b, in, number)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("preparing batch %d of group %s, epoch %d, for step %d: %w", b.Sequence, b.Group, b.Epoch, t.step, err)
	}
	return &block, nil
}

// prepare makes the first pass, inside the worker.
func (t *Trainer) prepare(s *torch.Scope, b *schemas.ScoredBatch, in Input, number int) (block schemas.FeatureBlock, err error) {
	t.follow()
	in.sent.hold(s, t.model)
	x, err := t.receive(s, in)
	if err != nil {
		return block, err
	}
	s.NoGrad(func() {
		f, _, _ := t.encode(s, b, x, masksOf(b, in))
		sum := s.Add(s.SumAll(f.allImages), s.SumAll(f.allTexts))
		if len(f.samples) > 0 {
			sum = s.Add(sum, s.Add(s.SumAll(f.keys.batchImage), s.SumAll(f.keys.batchText)))
		}
		if !finite(sum.Item()) {
			err = brokenWeights("before any loss")
			return
		}
		block = features(b, f, t.batches+int64(number))
		if err = block.Validate(); err == nil {
			t.open.put(number, f.ownKeys(s))
		}
	})
	return block, err
}

// put takes the keys of a batch.
func (o *openStep) put(number int, k batchKeys) {
	for len(o.prepared) <= number {
		o.prepared = append(o.prepared, nil)
	}
	if before := o.prepared[number]; before != nil {
		before.free()
	}
	o.prepared[number] = &k
}

// others returns the keys of all batches but one that have any, in the order of the step.
func (o *openStep) others(number int) (all []batchKeys, err error) {
	if number >= len(o.prepared) || o.prepared[number] == nil {
		return nil, fmt.Errorf("batch %d of the step was not prepared, which ITC.Gather needs", number)
	}
	for i, k := range o.prepared {
		if i != number && k != nil && len(k.ids) > 0 {
			all = append(all, *k)
		}
	}
	return all, nil
}

// Prepared returns the keys of the batches that this process has prepared, by their number in the open step.
func (t *Trainer) Prepared(ctx context.Context) (map[int]Keys, error) {
	all := make(map[int]Keys)
	err := t.worker.Do(ctx, func(*torch.Scope) error {
		for number, k := range t.open.prepared {
			switch {
			case k == nil:
			case len(k.ids) == 0:
				all[number] = Keys{}
			default:
				all[number] = Keys{k.image.Float32s(), k.text.Float32s(), k.ids}
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("taking the keys of step %d: %w", t.step, err)
	}
	return all, nil
}

// Gather takes the keys of all batches of the open step, by their number, where other processes have prepared some of
// them.
func (t *Trainer) Gather(ctx context.Context, all map[int]Keys) error {
	err := t.worker.Do(ctx, func(s *torch.Scope) error {
		for _, number := range slices.Sorted(maps.Keys(all)) {
			if number < 0 || number >= t.options.StepBatches {
				return fmt.Errorf("keys of batch %d, want 0 to %d", number, t.options.StepBatches-1)
			}
			if number < len(t.open.prepared) && t.open.prepared[number] != nil {
				continue
			}
			k, err := t.keysOf(s, all[number])
			if err != nil {
				return fmt.Errorf("batch %d: %w", number, err)
			}
			t.open.put(number, k)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("gathering the keys of step %d: %w", t.step, err)
	}
	return nil
}
