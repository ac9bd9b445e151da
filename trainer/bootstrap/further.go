package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/trainer"
)

// ErrPlainPairs means that a loss wants positives or second views, which random mini-batches of plain pairs do not have.
var ErrPlainPairs = errors.New("the uni-modal and the triple loss want more than plain pairs")

// Further says how [TrainFurther] trains. Its options are a trainer's own, so it can be compared with one that had better
// mini-batches.
type Further struct {
	Start   string // weights to begin with
	Trainer trainer.Options
	Batches int64
	Batch   int // pairs of a mini-batch
	Augment dataset.Augmentation
	Report  func(*trainer.Result) // told of every step; may be nil
}

// TrainFurther trains weights on random mini-batches of the corpus, whose other pairs are all negatives, and writes the
// result to path. Losses that want more than pairs are refused.
func TrainFurther(ctx context.Context, w *torch.Worker, source *shard.Images, data *dataset.Corpus, o Further, path string) error {
	if o.Trainer.UniWeight > 0 || o.Trainer.ITC.Triple {
		return fmt.Errorf("training further: %w", ErrPlainPairs)
	}
	m, err := model.Load(ctx, w, o.Start, model.LoadOptions{Trainable: true})
	if err != nil {
		return err
	}
	f := fitting{
		model: m, options: o.Trainer, augment: o.Augment,
		loop: trainer.BootstrapOptions{Steps: o.Batches, Batch: o.Batch, Report: o.Report},
	}
	return f.run(ctx, source, data, path)
}
