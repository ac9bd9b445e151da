package trainer

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// Encode returns the features that a batch has by the weights of the last step, without dropout. It changes nothing,
// and uses up an input that was sent.
func (t *Trainer) Encode(ctx context.Context, b *schemas.ScoredBatch, in Input) (*schemas.FeatureBlock, error) {
	return t.EncodeAt(ctx, b, in, max(t.open.batches, len(t.open.prepared)))
}

// EncodeAt does what [Trainer.Encode] does when a number of batches of the open step were learned from or prepared, by
// this process and others.
func (t *Trainer) EncodeAt(ctx context.Context, b *schemas.ScoredBatch, in Input, number int) (*schemas.FeatureBlock, error) {
	defer in.Free()
	if err := t.check(b, in); err != nil {
		return nil, fmt.Errorf("encoding batch %d of group %s, epoch %d: %w", b.Sequence, b.Group, b.Epoch, err)
	}
	var block schemas.FeatureBlock
	err := t.worker.Do(ctx, func(s *torch.Scope) error {
		t.model.SetDropout(0)
		defer t.model.SetDropout(t.options.Dropout)
		x, err := t.receive(s, in)
		if err != nil {
			return err
		}
		s.NoGrad(func() {
			f := &forward{masks: masksOf(b, in)}
			f.allImages = t.model.ImageFeature(s, t.model.Image(s, x.pixels))
			f.allTexts = t.model.TextFeature(s, t.model.Text(s, x.ids, x.attention))
			block = features(b, f, t.batches+int64(number))
		})
		return nil
	})
	if err == nil {
		err = block.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("encoding batch %d of group %s, epoch %d: %w", b.Sequence, b.Group, b.Epoch, err)
	}
	return &block, nil
}
