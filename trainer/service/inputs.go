package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// loadPause is the wait between two tries to load a batch's images.
const loadPause = 2 * time.Second

// inputs makes the inputs of batches.
type inputs struct {
	loader    *dataset.Loader
	logger    *slog.Logger
	positives bool
	second    bool                                       // the loss wants a second view of each image
	send      func(trainer.Input) (trainer.Input, error) // sends to the device
}

// newInputs makes inputs for a model.
func newInputs(ctx context.Context, tools device.Tools, s Settings, core *trainer.Trainer) (inputs, error) {
	images, err := tools.Images(ctx, s.Bucket)
	if err != nil {
		return inputs{}, err
	}
	size := core.Model().Config
	words, err := core.Model().Words()
	if err != nil {
		return inputs{}, fmt.Errorf("TRAIN_INIT is %q: %w", s.Init, err)
	}
	loader := dataset.NewLoader(images.ForInput(size.ImageSize), size.ImageSize, size.TextTokens, words,
		s.Run.Seed, s.Augment)
	return inputs{loader, tools.Instruments.Log, s.Core.UniWeight > 0, s.Core.ITC.Loss == trainer.Triple, core.Send}, nil
}

// load makes the inputs of a batch and sends them to the device. It masks an image that was lost for ever since Con-D
// saw the batch, beyond those that the batch's record masks. Any other fault is one of the bucket, and load tries again
// until the bucket is back. known holds the masks of the step when it was made before, if it was. An image that is back
// since then stays masked.
func (l inputs) load(ctx context.Context, b *schemas.ScoredBatch, known []schemas.Mask) (trainer.Input, error) {
	if drawn := l.loader.Drawn(); b.Drawn != "" && b.Drawn != drawn {
		return trainer.Input{}, fmt.Errorf("loading batch %d of group %s, epoch %d: Con-D saw images of %q, this trainer draws %q: want one SEED and the same AUGMENT settings in discriminator and trainer",
			b.Sequence, b.Group, b.Epoch, b.Drawn, drawn)
	}
	for {
		in := trainer.Input{IDs: l.loader.IDs(&b.Batch), Masked: slices.Clone(known)}
		err := l.pixels(ctx, b, &in)
		if err == nil {
			return l.send(in)
		}
		l.logger.Warn("loading images again", keyStage, Name, keyGroupID, b.Group.String(), keyErr, err)
		select {
		case <-time.After(loadPause):
		case <-ctx.Done():
			return in, ctx.Err()
		}
	}
}

// pixels fills in the images, and the masks of those that are gone.
func (l inputs) pixels(ctx context.Context, b *schemas.ScoredBatch, in *trainer.Input) error {
	for _, view := range []struct {
		wanted bool
		load   func(context.Context, *schemas.Batch, []schemas.Mask) ([]float32, []schemas.Mask, error)
		to     *[]float32
	}{
		{true, l.loader.Images, &in.Pixels},
		{l.second, l.loader.Second, &in.Second},
		{l.positives, l.loader.Positives, &in.Positives},
	} {
		if !view.wanted {
			continue
		}
		pixels, lost, err := view.load(ctx, &b.Batch, slices.Concat(b.Masked, in.Masked))
		if err != nil {
			return err
		}
		*view.to, in.Masked = pixels, append(in.Masked, lost...)
	}
	return nil
}
