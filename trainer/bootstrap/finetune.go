package bootstrap

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/trainer"
)

// FineTuning holds the options of a fine-tuning for retrieval. [DefaultFineTuning] returns the papers' values.
type FineTuning struct {
	Epochs  int             // over all captions; an incomplete last step of an epoch is left out
	Batch   int             // pairs in a step, shared by Core.StepBatches mini-batches, each with its own keys and hard negatives
	Core    trainer.Options // lengths of the schedule follow from the epochs, and so does the rise of distilled targets, over the first
	Distill float64         // share of the momentum model's similarities in ITC's targets; 0: as Core says
	Average string          // checkpoint whose trained average starts the momentum encoder; empty: a copy of the model does
	Seed    uint64
	Augment dataset.Augmentation
	// Measure, if set, returns how good the weights are after an epoch; more is better. The best epoch's are written.
	Measure     func(context.Context, *model.Model) (float64, error)
	Measured    func(epoch int, value float64, best bool) // told of every epoch's figure; may be nil
	Checkpoints Checkpoints
	Report      func(r *trainer.Result, steps int64) // told of every step; may be nil
}

// DefaultFineTuning returns the settings of GRIT-VLP's supplement 3 and MAFA's appendix F, for COCO; Flickr30k has 10
// epochs. Their 256 pairs lie on four GPUs, where each draws the negatives of ITM from its own 64. As in their code the
// rate falls from epoch to epoch, by a cosine.
func DefaultFineTuning() FineTuning {
	o := trainer.RetrievalFineTuning()
	o.StepBatches, o.Schedule.Kind = 4, trainer.ReferenceEpochs
	return FineTuning{Epochs: 5, Batch: 256, Core: o}
}

// Validate returns every invalid option, joined.
func (o FineTuning) Validate() error {
	parts := o.Core.StepBatches
	var l invalid.List
	l.Add(o.training(1, 1).Validate(), o.Augment.Validate())
	l.Refuse(o.Epochs < 1, "%d epochs, want at least 1", o.Epochs)
	if o.Batch < 2 {
		l.Add(fmt.Errorf("batch of %d, want at least 2: a pair needs others to be told from", o.Batch))
	} else if parts > 0 && (o.Batch < 2*parts || o.Batch%parts != 0) {
		l.Add(fmt.Errorf("a step of %d pairs in %d mini-batches, want as many in each, and at least 2: set --batch to a multiple of --step-batches", o.Batch, parts))
	}
	return l.Err()
}

// training returns the options of the core. By default they are ITC against a queue of momentum features, and ITM with
// negatives drawn from the mini-batch: see [trainer.RetrievalFineTuning]. ALBEF also distils, with a share of 0.4.
func (o FineTuning) training(steps, epoch int64) trainer.Options {
	t := o.Core
	t.Seed, t.ITC.AlphaRampSteps = o.Seed, epoch
	if o.Distill != 0 {
		t.ITC.Targets, t.ITC.Alpha = trainer.Distilled, o.Distill
	}
	t.Schedule.TotalSteps, t.Schedule.Epochs, t.Schedule.EpochSteps = steps, int64(o.Epochs), epoch
	return t
}

// FineTune fine-tunes a model on the corpus for retrieval and writes its weights to path. It takes the model over and
// frees it. GRIT-VLP's supplement finds two beginnings of the momentum encoder equally good: the trained average, and
// the weights of the model. FineTune does not write it. With a measure path has the weights of the best epoch so far.
func FineTune(ctx context.Context, m *model.Model, source *shard.Images, data *dataset.Corpus, o FineTuning, path string) error {
	err := o.Validate()
	if least := 2 * o.Core.StepBatches; err == nil && data.Pairs() < least {
		err = fmt.Errorf("%d pairs to train on, want at least %d: 2 for each of a step's mini-batches (--step-batches)", data.Pairs(), least)
	}
	if err != nil {
		m.Free()
		return fmt.Errorf("fine-tuning: %w", err)
	}
	batch := min(o.Batch, data.Pairs()) / o.Core.StepBatches * o.Core.StepBatches
	epoch := int64(data.Pairs() / batch)
	steps := int64(o.Epochs) * epoch
	m.Config.TextTokens = m.Config.RetrievalTokens()
	f := fitting{
		model: m, checkpoints: o.Checkpoints, options: o.training(steps, epoch), augment: o.Augment, average: o.Average,
		loop: trainer.BootstrapOptions{
			Steps: steps, Batch: batch, Seed: o.Seed, Loaders: o.Augment.Readers(),
			Checkpoints: o.Checkpoints.Dir, CheckpointEvery: o.Checkpoints.Every,
		},
	}
	if o.Report != nil {
		f.loop.Report = func(r *trainer.Result) { o.Report(r, steps) }
	}
	if o.Measure == nil {
		return f.run(ctx, source, data, path)
	}
	return o.byEpochs(ctx, f, source, data, path)
}

// measurements list in a checkpoint the epochs that were measured.
type measurements struct {
	Epochs int     `json:"measured_epochs"`
	Best   int     `json:"best_epoch"` // from 1
	Value  float64 `json:"best_value"`
}

// byEpochs trains epoch by epoch, and writes the weights of the best.
func (o FineTuning) byEpochs(ctx context.Context, f fitting, source *shard.Images, data *dataset.Corpus, path string) error {
	t, positions, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer t.Free()
	var j measurements
	if err := j.read(positions, path); err != nil {
		return fmt.Errorf("going on from a checkpoint in %s: %w", f.checkpoints.Dir, err)
	}
	examples, err := f.examples(ctx, t.Model(), source, data)
	if err != nil {
		return err
	}
	epoch := f.loop.Steps / int64(o.Epochs)
	for j.Epochs < o.Epochs {
		if f.loop.Positions, err = json.Marshal(j); err != nil {
			return fmt.Errorf("encoding what was measured: %w", err)
		}
		f.loop.Steps = int64(j.Epochs+1) * epoch
		if err := t.Bootstrap(ctx, examples, f.loop); err != nil {
			return err
		}
		if err := o.judge(ctx, t, &j, path); err != nil {
			return fmt.Errorf("measuring epoch %d: %w", j.Epochs+1, err)
		}
	}
	return nil
}

// judge measures the epoch that has ended, and writes its weights if none was better.
func (o FineTuning) judge(ctx context.Context, t *trainer.Trainer, j *measurements, path string) error {
	var value float64
	err := t.Look(func(m *model.Model) (err error) {
		value, err = o.Measure(ctx, m)
		return err
	})
	if err != nil {
		return err
	}
	j.Epochs++
	best := j.Best == 0 || value > j.Value
	if best {
		if err := save(ctx, t.Model(), path); err != nil {
			return err
		}
		j.Best, j.Value = j.Epochs, value
	}
	if o.Measured != nil {
		o.Measured(j.Epochs, value, best)
	}
	return nil
}

// read reads the measurements in a checkpoint. Without a checkpoint it reads nothing.
func (j *measurements) read(positions json.RawMessage, path string) error {
	if len(positions) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(positions))
	d.DisallowUnknownFields()
	if err := d.Decode(j); err != nil {
		return fmt.Errorf("it is of another kind of training: give another folder: %w", err)
	}
	if j.Best == 0 {
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("the best weights so far, of epoch %d, are gone: %w; give another folder to begin anew", j.Best, err)
	}
	return nil
}
