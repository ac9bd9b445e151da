package experiments

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// train makes the weights unless they are there.
func (f FirstModel) train(ctx context.Context, w *torch.Worker, path string, log func(string)) (err error) {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of first models: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), "first-")
	if err != nil {
		return fmt.Errorf("making a folder for scenes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side, o.PerShard, o.FalseNegatives = f.Seed, f.Scenes, f.Captions, f.Side, 1000, f.FalseNegatives
	o.Kinds = f.Kinds
	d, err := generate(ctx, filepath.Join(dir, "scenes"), o, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.closeImages()) }()
	made := filepath.Join(dir, "weights.safetensors")
	weights := bootstrap.Weights{ITC: 1} // its vectors alone are used
	if f.Matching {
		weights.ITM = 1
	}
	err = bootstrap.Train(ctx, w, d.images, d.train, bootstrap.Options{
		Preset: f.Preset, Vocab: d.vocab, Steps: f.Steps, Batch: f.Batch, Rate: firstRate, Seed: f.Seed,
		Augment: augmentation(), Weights: weights, Candidates: f.Candidates,
		Report: progress(log, "first model", f.Steps),
	}, made)
	if err == nil && f.Space > 0 {
		if err = f.further(ctx, w, d, made, grouper.StrategyGRIT, f.Epochs, log); err == nil {
			err = f.further(ctx, w, d, made, grouper.StrategyRandom, f.Settle, log)
		}
	}
	if err != nil {
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return fmt.Errorf("keeping the first model: %w", err)
	}
	return nil
}

// further trains weights on mini-batches of the same pairs, each of which takes its hardest negatives from all others.
func (f FirstModel) further(ctx context.Context, w *torch.Worker, d *data, weights string, strategy grouper.Strategy, epochs int, log func(string)) error {
	const batch = 48
	s := &setup{
		sizes: Sizes{Batch: batch, Space: f.Space, Epochs: epochs}, seed: f.Seed, worker: w, data: d, preset: f.Preset,
		augment: augmentation(), log: log,
	}
	g, err := newGroup(ctx, w, weights, d.images, d.pairs, f.Seed)
	if err != nil {
		return err
	}
	options := arm{Targets: oneHot}.options(s.training(s.steps()))
	options.MLMWeight = 0
	return s.train(ctx, weights, g, training{
		name: string(strategy), sampling: s.sampling(strategy, batch, epochs, 0), options: options, score: unscored,
	}, weights)
}
