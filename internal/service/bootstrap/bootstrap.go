// Package bootstrap trains a first model from tars, before there is an encoder to embed pairs or a Con-D to score
// candidates. Its weights serve as both, and as the start of the trainer.
package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/service/corpus"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/service/samples"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/trainer"
)

// Weights of the objectives, the settings of the trainer.
type Weights struct {
	ITC float64 `env:"ITC_WEIGHT" envDefault:"1" desc:"weight of ITC in the loss"`
	ITM float64 `env:"ITM_WEIGHT" envDefault:"1" desc:"weight of ITM in the loss"`
	MLM float64 `env:"MLM_WEIGHT" envDefault:"1" desc:"weight of MLM in the loss"`
}

// Options of a bootstrap.
type Options struct {
	Preset  string   // size of the model, see model.Preset
	Vocab   []string // WordPiece
	Steps   int64
	Batch   int
	Rate    float64 // highest learning rate
	Seed    uint64
	Augment samples.Augmentation
	Weights Weights
	Report  func(*trainer.Result) // told of every step; may be nil
}

// candidates is the number of samples among which a pair's hard negatives are looked for.
const candidates = 4

// Validate joins all problems.
func (o Options) Validate() error {
	var problems []error
	if o.Steps < 1 {
		problems = append(problems, fmt.Errorf("%d steps, want at least 1", o.Steps))
	}
	if o.Batch < 2 {
		problems = append(problems, fmt.Errorf("batch of %d, want at least 2: a pair needs others to be told from", o.Batch))
	}
	return errors.Join(append(problems, o.Augment.Validate())...)
}

// training is GRIT-VLP's objective without its consistency term, on random batches: ALBEF's, without a momentum encoder.
func (o Options) training() trainer.Options {
	t := trainer.GRITVLP()
	t.Seed = o.Seed
	t.ITC.Targets = trainer.OneHot
	t.ITCWeight, t.ITMWeight, t.MLMWeight = o.Weights.ITC, o.Weights.ITM, o.Weights.MLM
	t.MaskProbability = 0.15
	t.Schedule.Rate, t.Schedule.Min, t.Schedule.WarmupRate = o.Rate, o.Rate/10, o.Rate/10
	t.Schedule.WarmupSteps, t.Schedule.TotalSteps = min(o.Steps/10, 2000), o.Steps
	return t
}

// Train trains a model on the corpus and writes its weights to path.
func Train(ctx context.Context, w *torch.Worker, source *shard.Images, data *corpus.Corpus, o Options, path string) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("bootstrapping: %w", err)
	}
	size, err := model.Preset(o.Preset, len(o.Vocab))
	if err != nil {
		return err
	}
	words, err := token.NewWordPiece(o.Vocab)
	if err != nil {
		return err
	}
	m, err := model.New(ctx, w, size, o.Seed)
	if err != nil {
		return err
	}
	m.Vocab = o.Vocab
	t, err := trainer.New(ctx, m, o.training())
	if err != nil {
		m.Free()
		return err
	}
	defer t.Free()
	err = t.Bootstrap(ctx, &corpus.Training{
		Corpus: data, Ctx: ctx, Source: source, Words: words, Length: size.TextTokens, Size: size.ImageSize,
		Augment: imaging.AugmentOptions{MinScale: o.Augment.MinScale, Flip: o.Augment.Flip, Color: o.Augment.Color},
	}, trainer.BootstrapOptions{Steps: o.Steps, Batch: o.Batch, Seed: o.Seed, Loaders: o.Augment.Workers, Candidates: candidates, Report: o.Report})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing weights: %w", err)
	}
	return m.Save(ctx, path)
}

// Images opens the places where the tars are, and keeps images for a model of a preset.
func Images(ctx context.Context, paths []string, side int, cacheBytes int64) (*shard.Images, func() error, error) {
	roots, err := shard.Roots(paths)
	if err != nil {
		return nil, nil, err
	}
	b := engine.Bucket{Roots: roots, CacheBytes: cacheBytes}
	bucket, err := b.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return b.Images(bucket, side), bucket.Close, nil
}
