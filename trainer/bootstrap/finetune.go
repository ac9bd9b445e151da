package bootstrap

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/trainer"
)

// FineTuning holds the options of a fine-tuning for retrieval. [DefaultFineTuning] returns the papers' values.
type FineTuning struct {
	Epochs      int     // over all captions; an incomplete last step of an epoch is left out
	Batch       int     // pairs in a step
	StepBatches int     // mini-batches that share a step's pairs, each with keys and hard negatives of its own; a power of two
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
// epochs. Their 256 pairs lie on four GPUs, where each draws the negatives of ITM from its own 64.
func DefaultFineTuning() FineTuning {
	o := trainer.RetrievalFineTuning()
	return FineTuning{Epochs: 5, Batch: 256, StepBatches: 4, Rate: o.Schedule.Rate, Queue: o.Momentum.Queue, Decay: o.Momentum.Decay}
}

// Validate returns every invalid option, joined.
func (o FineTuning) Validate() error {
	var l invalid.List
	l.Add(o.training(1, 1).Validate(), o.Augment.Validate())
	l.Refuse(o.Epochs < 1, "%d epochs, want at least 1", o.Epochs)
	if o.Batch < 2 {
		l.Add(fmt.Errorf("batch of %d, want at least 2: a pair needs others to be told from", o.Batch))
	} else if o.StepBatches > 0 && (o.Batch < 2*o.StepBatches || o.Batch%o.StepBatches != 0) {
		l.Add(fmt.Errorf("a step of %d pairs in %d mini-batches, want as many in each, and at least 2: set --batch to a multiple of --step-batches", o.Batch, o.StepBatches))
	}
	return l.Err()
}

// training returns ITC against a queue of momentum features and ITM with negatives of the batch that are drawn: see
// [trainer.RetrievalFineTuning]. ALBEF distils as well, with a share of 0.4.
func (o FineTuning) training(steps, epoch int64) trainer.Options {
	t := trainer.RetrievalFineTuning()
	t.Seed, t.StepBatches = o.Seed, o.StepBatches
	t.Momentum.Queue, t.Momentum.Decay = o.Queue, o.Decay
	if o.Distill != 0 {
		t.ITC.Targets, t.ITC.Alpha, t.ITC.AlphaRampSteps = trainer.Distilled, o.Distill, epoch
	}
	t.Schedule.Rate, t.Schedule.Min, t.Schedule.WarmupRate = o.Rate, o.Rate/10, o.Rate
	t.Schedule.TotalSteps = steps
	return t
}

// FineTune fine-tunes a model on the corpus for retrieval and writes its weights to path. It takes the model over and
// frees it. The momentum encoder begins with the weights of the model, one of two choices that GRIT-VLP's supplement
// finds equally good. FineTune does not write it.
func FineTune(ctx context.Context, m *model.Model, source *shard.Images, data *dataset.Corpus, o FineTuning, path string) error {
	err := o.Validate()
	if least := 2 * o.StepBatches; err == nil && data.Pairs() < least {
		err = fmt.Errorf("%d pairs to train on, want at least %d: 2 for each of a step's mini-batches (--step-batches)", data.Pairs(), least)
	}
	if err != nil {
		m.Free()
		return fmt.Errorf("fine-tuning: %w", err)
	}
	batch := min(o.Batch, data.Pairs()) / o.StepBatches * o.StepBatches
	epoch := int64(data.Pairs() / batch)
	steps := int64(o.Epochs) * epoch
	m.Config.TextTokens = m.Config.RetrievalTokens()
	f := fitting{
		model: m, checkpoints: o.Checkpoints, options: o.training(steps, epoch), augment: o.Augment,
		loop: trainer.BootstrapOptions{
			Steps: steps, Batch: batch, Seed: o.Seed, Loaders: o.Augment.Workers,
			Checkpoints: o.Checkpoints.Dir, CheckpointEvery: o.Checkpoints.Every,
		},
	}
	if o.Report != nil {
		f.loop.Report = func(r *trainer.Result) { o.Report(r, steps) }
	}
	return f.run(ctx, source, data, path)
}
