package training

import (
	"context"
	"log/slog"
	"time"

	"github.com/pairstream/pairstream/internal/service/samples"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// loadPause is the wait between two tries to load a batch's images.
const loadPause = 2 * time.Second

// inputs makes the inputs of batches.
type inputs struct {
	loader    *samples.Loader
	logger    *slog.Logger
	positives bool
	send      func(trainer.Input) (trainer.Input, error) // to the device
}

// load makes the inputs of a batch and sends them on. The encoder has read every image before, so one that cannot be had now is a fault of
// the bucket: it is tried again until the bucket is back.
func (l inputs) load(ctx context.Context, b *schemas.ScoredBatch) (trainer.Input, error) {
	for {
		in := trainer.Input{IDs: l.loader.IDs(&b.Batch)}
		var err error
		in.Pixels, err = l.loader.Images(ctx, &b.Batch)
		if err == nil && l.positives {
			in.Positives, err = l.loader.Positives(ctx, &b.Batch)
		}
		if err == nil {
			return l.send(in)
		}
		l.logger.Warn("loading images again", "stage", Name, "group_id", b.Group.String(), "err", err)
		select {
		case <-time.After(loadPause):
		case <-ctx.Done():
			return in, ctx.Err()
		}
	}
}
