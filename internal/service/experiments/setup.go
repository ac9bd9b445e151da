package experiments

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/service/bootstrap"
	"github.com/pairstream/pairstream/internal/service/samples"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/testdata/scenes"
	"github.com/pairstream/pairstream/trainer"
)

// Sizes say how much is generated and how long is trained.
type Sizes struct {
	Scenes     int   // with one caption each
	HeldOut    int   // of these
	StartSteps int64 // of the first model of Sampling
	CondSteps  int64 // of the first model of Connections, which is its Con-D
	Batch      int
	Space      int // search space of GRIT, in mini-batches
	Epochs     int // of Sampling
}

// DefaultSizes take two cores a few minutes a seed and experiment.
func DefaultSizes() Sizes {
	return Sizes{Scenes: 2600, HeldOut: 200, StartSteps: 800, CondSteps: 2000, Batch: 48, Space: 8, Epochs: 6}
}

// Setup is what both experiments of a seed share.
type Setup struct {
	sizes  Sizes
	seed   uint64
	dir    string
	worker *torch.Worker
	data   *data
	log    io.Writer
}

// New generates the scenes of a seed in a folder that holds none yet. Close follows.
func New(ctx context.Context, w *torch.Worker, dir string, seed uint64, sizes Sizes, log io.Writer) (*Setup, error) {
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side, o.PerShard = seed, sizes.Scenes, 1, side, 1000
	// Few kinds, so that captions are true of other scenes too; large ones, which a small model tells apart.
	o.Kinds = scenes.Kinds{Shapes: 4, Colours: 4, Objects: 2, Large: true}
	d, err := generate(ctx, filepath.Join(dir, "scenes"), o, sizes.HeldOut)
	if err != nil {
		return nil, err
	}
	return &Setup{sizes: sizes, seed: seed, dir: dir, worker: w, data: d, log: log}, nil
}

// Close gives the images back.
func (s *Setup) Close() error { return s.data.closeImages() }

const (
	preset = "tiny"
	side   = 64 // pixels of the preset, and of the scenes

	highestRate = 1.5e-3
	mlmWeight   = 0.2 // a small model guesses words long before it matches pairs
)

// augmentation leaves out crops and mirroring, which change counts and places.
func augmentation() samples.Augmentation {
	return samples.Augmentation{MinScale: 1, Color: 0.1, Workers: 2}
}

// first trains a model on random mini-batches, for the encoder, Con-D and the trainer's start.
func (s *Setup) first(ctx context.Context, steps int64, path string) error {
	fmt.Fprintf(s.log, "seed %d: training a first model, %d steps of %d\n", s.seed, steps, s.sizes.Batch)
	return bootstrap.Train(ctx, s.worker, s.data.images, s.data.train, bootstrap.Options{
		Preset: preset, Vocab: s.data.vocab, Steps: steps, Batch: s.sizes.Batch, Rate: highestRate, Seed: s.seed,
		Augment: augmentation(), Weights: bootstrap.Weights{ITC: 1, ITM: 1, MLM: mlmWeight}, Candidates: 8,
		Report: s.report("first model", steps),
	}, path)
}

// report prints every tenth part of a training, with the mean losses of its steps.
func (s *Setup) report(name string, steps int64) func(*trainer.Result) {
	every := max(steps/10, 1)
	var itc, itm float64
	return func(r *trainer.Result) {
		itc += r.Losses.ITC / float64(every)
		itm += r.Losses.ITM / float64(every)
		if (r.Step+1)%every == 0 {
			fmt.Fprintf(s.log, "  %-11s step %5d of %d  itc %.3f  itm %.3f\n", name, r.Step+1, steps, itc, itm)
			itc, itm = 0, 0
		}
	}
}
