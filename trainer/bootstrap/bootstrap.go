// Package bootstrap trains on tars alone, without the log. [Train] makes a first model, before there is an encoder to
// embed pairs or a Con-D to score candidates. Its weights serve as both, and as the start of the trainer. [Converge]
// does so until the model tells hard held-out pairs apart no better than before. It calibrates the model and writes its
// card. [FineTune] fine-tunes a model for retrieval, as the papers do to make Con-D.
//
// With [Checkpoints] an interrupted run goes on from its newest checkpoint, and ends in the weights of a run without
// interruption.
package bootstrap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/trainer"
)

// Weights are the weights of the objectives in the loss.
type Weights struct {
	ITC, ITM, MLM float64
}

// Options are the options of a bootstrap.
type Options struct {
	Preset  string   // size of the model, see model.Preset
	Vocab   []string // WordPiece
	Start   string   // weights to begin with, which have a size and a vocabulary of their own; empty: drawn from the seed
	Steps   int64
	Batch   int
	Rate    float64 // highest learning rate
	Seed    uint64
	Augment dataset.Augmentation
	Weights Weights
	Dropout float64 // of the text encoder
	// Candidates is the number of other samples among which a pair's hard negatives are looked for; 0: [Candidates].
	Candidates  int
	Checkpoints Checkpoints
	Report      func(*trainer.Result) // told of every step; may be nil
}

// Checkpoints say where a run saves its state, and from where it goes on. Without a folder it does neither.
type Checkpoints struct {
	Dir   string
	Every int64 // steps between two of them; 0: writes none
}

// Candidates is small: see [trainer.BootstrapOptions].
const Candidates = 4

// Validate returns every invalid option, joined.
func (o Options) Validate() error {
	var l invalid.List
	l.Refuse(o.Steps < 1, "%d steps, want at least 1", o.Steps)
	l.Refuse(o.Batch < 2, "batch of %d, want at least 2: a pair needs others to be told from", o.Batch)
	l.Add(o.Augment.Validate())
	return l.Err()
}

// training returns GRIT-VLP's objective without its consistency term, on random batches. That is ALBEF's objective
// without a momentum encoder.
func (o Options) training() trainer.Options {
	t := trainer.GRITVLP()
	t.Seed = o.Seed
	t.ITC.Targets = trainer.OneHot
	t.ITCWeight, t.ITMWeight, t.MLMWeight = o.Weights.ITC, o.Weights.ITM, o.Weights.MLM
	t.MaskProbability, t.Dropout = 0.15, o.Dropout
	t.Schedule.Rate, t.Schedule.Min, t.Schedule.WarmupRate = o.Rate, o.Rate/10, o.Rate/10
	t.Schedule.WarmupSteps, t.Schedule.TotalSteps = min(o.Steps/10, 2000), o.Steps
	return t
}

// Train trains a model on the corpus and writes its weights to path.
func Train(ctx context.Context, w *torch.Worker, source *shard.Images, data *dataset.Corpus, o Options, path string) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("bootstrapping: %w", err)
	}
	f, err := newFitting(ctx, w, o)
	if err != nil {
		return err
	}
	return f.run(ctx, source, data, path)
}

// newFitting makes the initial model of a bootstrap.
func newFitting(ctx context.Context, w *torch.Worker, o Options) (fitting, error) {
	m, err := o.initial(ctx, w)
	if err != nil {
		return fitting{}, err
	}
	loop := trainer.BootstrapOptions{
		Steps: o.Steps, Batch: o.Batch, Candidates: cmp.Or(o.Candidates, Candidates), Report: o.Report,
		Seed: o.Seed, Loaders: o.Augment.Readers(), Checkpoints: o.Checkpoints.Dir, CheckpointEvery: o.Checkpoints.Every,
	}
	return fitting{model: m, checkpoints: o.Checkpoints, options: o.training(), augment: o.Augment, loop: loop}, nil
}

// initial returns the model before its first step.
func (o Options) initial(ctx context.Context, w *torch.Worker) (*model.Model, error) {
	if o.Start != "" {
		return model.Load(ctx, w, o.Start, model.LoadOptions{})
	}
	size, err := model.Preset(o.Preset, len(o.Vocab))
	if err != nil {
		return nil, err
	}
	m, err := model.New(ctx, w, size, o.Seed)
	if err == nil {
		m.Vocab = o.Vocab
	}
	return m, err
}

// fitting is a training on tars.
type fitting struct {
	model       *model.Model // the initial model; freed in any case
	checkpoints Checkpoints
	options     trainer.Options
	loop        trainer.BootstrapOptions
	augment     dataset.Augmentation
	average     string // checkpoint whose trained average begins the momentum encoder; empty: a copy of the model does
}

// run trains to the end and writes the weights to path.
func (f fitting) run(ctx context.Context, source *shard.Images, data *dataset.Corpus, path string) error {
	t, positions, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer t.Free()
	if len(positions) > 0 {
		return fmt.Errorf("going on from a checkpoint in %s: it is of a training that ends by itself: give another folder, or no number of steps", f.checkpoints.Dir)
	}
	examples, err := f.examples(ctx, t.Model(), source, data)
	if err != nil {
		return err
	}
	if err := t.Bootstrap(ctx, examples, f.loop); err != nil {
		return err
	}
	return save(ctx, t.Model(), path)
}

// examples presents a corpus to a model.
func (f fitting) examples(ctx context.Context, m *model.Model, source *shard.Images, data *dataset.Corpus) (*dataset.Training, error) {
	words, err := m.Words()
	if err != nil {
		return nil, err
	}
	return &dataset.Training{
		Corpus: data, Ctx: ctx, Source: source, Words: words, Length: m.Config.TextTokens, Size: m.Config.ImageSize,
		Augment: f.augment,
	}, nil
}

// save writes weights, and makes the folder if need be.
func save(ctx context.Context, m *model.Model, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing weights: %w", err)
	}
	return m.Save(ctx, path)
}

// open resumes from the newest checkpoint, or begins with the model. positions are those of the checkpoint.
func (f fitting) open(ctx context.Context) (t *trainer.Trainer, positions json.RawMessage, err error) {
	path, err := f.checkpoints.latest()
	if err == nil && path == "" {
		if t, err = trainer.New(ctx, f.model, f.options); err == nil && f.average != "" {
			if err = t.AverageFrom(ctx, f.average); err != nil {
				t.Free()
				return nil, nil, err
			}
		}
		if err == nil {
			return t, nil, nil
		}
	}
	f.model.Free()
	if err != nil {
		return nil, nil, err
	}
	return trainer.Resume(ctx, f.model.Worker(), path, f.options)
}

// latest returns the checkpoint to resume from; empty: there is none. It fails where all checkpoints are broken, and
// does not begin anew.
func (c Checkpoints) latest() (string, error) {
	if c.Dir == "" {
		return "", nil
	}
	path, bad, err := trainer.LatestCheckpoint(c.Dir)
	if err == nil && path == "" && len(bad) > 0 {
		err = fmt.Errorf("looking for a checkpoint to go on from: %w", errors.Join(bad...))
	}
	return path, err
}

// Images opens the places where the tars are, and caches images for a model of a preset.
func Images(ctx context.Context, paths []string, side int, cacheBytes int64) (*shard.Images, func() error, error) {
	roots, err := shard.Roots(paths)
	if err != nil {
		return nil, nil, err
	}
	bucket, err := shard.OpenBucket(ctx, roots, nil)
	if err != nil {
		return nil, nil, err
	}
	return shard.NewImages(bucket, shard.ImagesOptions{MaxBytes: cacheBytes, MinSide: 2 * side}), bucket.Close, nil
}
