package bootstrap

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/trainer"
)

// FineTuning holds the options of a fine-tuning for retrieval. [DefaultFineTuning] returns the papers' values.
type FineTuning struct {
	Epochs      int // over all captions; an incomplete last batch of an epoch is left out
	Batch       int
	Rate        float64 // at the start; a tenth of it at the end
	Queue       int     // momentum features that are further negatives of ITC
	Decay       float64 // of the momentum encoder
	Distill     float64 // share of the momentum model's similarities in ITC's targets; from 0, over the first epoch
	Seed        uint64
	Augment     dataset.Augmentation
	Checkpoints Checkpoints
	Report      func(r *trainer.Result, steps int64) // told of every step; may be nil
}

// DefaultFineTuning returns the settings of GRIT-VLP's supplement 3 and MAFA's appendix F, for COCO; Flickr30k has 10
// epochs.
func DefaultFineTuning() FineTuning {
	o := trainer.RetrievalFineTuning()
	return FineTuning{Epochs: 5, Batch: 256, Rate: o.Schedule.Rate, Queue: o.Momentum.Queue, Decay: o.Momentum.Decay}
}

// Validate returns every invalid option, joined.
func (o FineTuning) Validate() error {
	problems := []error{o.training(1, 1).Validate(), o.Augment.Validate()}
	if o.Epochs < 1 {
		problems = append(problems, fmt.Errorf("%d epochs, want at least 1", o.Epochs))
	}
	if o.Batch < 2 {
		problems = append(problems, fmt.Errorf("batch of %d, want at least 2: a pair needs others to be told from", o.Batch))
	}
	return errors.Join(problems...)
}

// training returns ITC against a queue of momentum features and ITM with negatives of the batch that are drawn: see
// [trainer.RetrievalFineTuning]. ALBEF distils as well, with a share of 0.4.
func (o FineTuning) training(steps, epoch int64) trainer.Options {
	t := trainer.RetrievalFineTuning()
	t.Seed = o.Seed
	t.Momentum.Queue, t.Momentum.Decay = o.Queue, o.Decay
	if o.Distill != 0 {
		t.ITC.Targets, t.ITC.Alpha, t.ITC.AlphaRampSteps = trainer.Distilled, o.Distill, epoch
	}
	t.Schedule.Rate, t.Schedule.Min, t.Schedule.WarmupRate = o.Rate, o.Rate/10, o.Rate
	t.Schedule.TotalSteps = steps
	return t
}

// FineTune fine-tunes a model on the corpus for retrieval and writes its weights to path. It takes the model over and
// frees it. The momentum encoder begins with the weights of the model, one of two choices that GRIT-VLP's supplement finds
// equally good. FineTune does not write it.
func FineTune(ctx context.Context, m *model.Model, source *shard.Images, data *dataset.Corpus, o FineTuning, path string) error {
	err := o.Validate()
	if err == nil && data.Pairs() < 2 {
		err = fmt.Errorf("%d pairs to train on, want at least 2", data.Pairs())
	}
	if err != nil {
		m.Free()
		return fmt.Errorf("fine-tuning: %w", err)
	}
	batch := min(o.Batch, data.Pairs())
	epoch := int64(data.Pairs() / batch)
	steps := int64(o.Epochs) * epoch
	m.Config.TextTokens = m.Config.RetrievalTokens()
	f := fitting{
		model: m, checkpoints: o.Checkpoints, options: o.training(steps, epoch), augment: o.Augment,
		loop: trainer.BootstrapOptions{Steps: steps, Batch: batch},
	}
	if o.Report != nil {
		f.loop.Report = func(r *trainer.Result) { o.Report(r, steps) }
	}
	return f.run(ctx, source, data, path)
}
