package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// Sizes say how much is generated and how long the trainings take.
type Sizes struct {
	Scenes     int   // of either experiment, with one caption each
	HeldOut    int   // of these, for what trains arms
	FirstSteps int64 // of the first model
	CondSteps  int64 // of Con-D
	FirstBatch int   // pairs of its mini-batches, and of those whose candidates are judged
	Batch      int   // pairs of the mini-batches that are compared
	Space      int   // search space of GRIT, in mini-batches
	Epochs     int   // of either training that is compared
}

// DefaultSizes returns sizes that take a core half a minute for Connections and about a minute for an arm. The mini-batches
// that are compared are small. Among 48 scenes of so few kinds, one is always almost like another, which is
// not so in the papers' millions.
func DefaultSizes() Sizes {
	return Sizes{Scenes: 2600, HeldOut: 200, FirstSteps: 1200, CondSteps: 500, FirstBatch: 48, Batch: 8, Space: 3, Epochs: 8}
}

// setup is an experiment for one seed: its scenes, and the folder of its weights.
type setup struct {
	sizes   Sizes
	seed    uint64
	dir     string
	worker  *torch.Worker
	data    *data
	preset  string
	augment dataset.Augmentation
	rate    float64 // of the arms; 0: that of the experiments on scenes
	dropout float64 // of the arms
	log     func(line string)
}

// Job says where and with which seed an experiment runs.
type Job struct {
	Worker *torch.Worker
	Dir    string // for scenes and weights
	Seed   uint64
	Sizes  Sizes             // of what trains for every seed
	Shelf  *Shelf            // of models that seeds share
	Photos string            // folder or tars of photographs with several captions each, for X9 and X12
	Log    func(line string) // is told how trainings go
}

// setup generates scenes of some kinds. The caller closes the images.
func (j Job) setup(ctx context.Context, kinds scenes.Kinds) (*setup, error) {
	return j.noisySetup(ctx, kinds, 0, 0)
}

// noisySetup generates scenes of which a share of the captions is wrong, and another one about nothing in the picture.
func (j Job) noisySetup(ctx context.Context, kinds scenes.Kinds, wrong, irrelevant float64) (*setup, error) {
	o := scenes.Defaults()
	o.WrongShare, o.IrrelevantShare = wrong, irrelevant
	o.Seed, o.Scenes, o.Captions, o.Side, o.PerShard, o.Kinds = j.Seed, j.Sizes.Scenes, 1, side, 1000, kinds
	dir, err := os.MkdirTemp(j.Dir, "experiment-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for scenes and weights: %w", err)
	}
	d, err := generate(ctx, filepath.Join(dir, "scenes"), o, j.Sizes.HeldOut)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &setup{
		sizes: j.Sizes, seed: j.Seed, dir: dir, worker: j.Worker, data: d, preset: preset, augment: augmentation(), log: j.Log,
	}, nil
}

// measureTruth leaves the held-out pairs away whose captions are false. The papers measure on true captions as well.
func (s *setup) measureTruth() {
	said := map[schemas.ImageID]string{}
	for i := range s.data.held.Pairs() {
		caption, _, id := s.data.held.Pair(i)
		said[id] = caption
	}
	s.data.held = s.data.held.Without(func(id schemas.ImageID) bool { return !s.data.matches(id, said[id]) })
}

// close closes the images and removes scenes and weights.
func (s *setup) close() error { return errors.Join(s.data.closeImages(), os.RemoveAll(s.dir)) }

const (
	preset = "micro"
	side   = 32 // pixels of the preset, and of the scenes

	firstRate = 1.5e-3
	rate      = 5e-4
	mlmWeight = 0.2 // a small model guesses words long before it matches pairs
)

// augmentation returns an augmentation without crops and mirroring, which would change counts and places.
func augmentation() dataset.Augmentation {
	return dataset.Augmentation{MinScale: 1, Color: 0.1, Workers: 2}
}

// first trains a model on random mini-batches. The hard negatives are the most similar among the given number of
// candidates.
func (s *setup) first(ctx context.Context, steps int64, candidates int, path string) error {
	return bootstrap.Train(ctx, s.worker, s.data.images, s.data.train, bootstrap.Options{
		Preset: s.preset, Vocab: s.data.vocab, Steps: steps, Batch: s.sizes.FirstBatch, Rate: firstRate, Seed: s.seed,
		Augment: s.augment, Weights: bootstrap.Weights{ITC: 1, ITM: 1, MLM: mlmWeight}, Candidates: candidates,
		Report: s.report("first model", steps),
	}, path)
}

// report returns a function that prints every tenth part of a training, with the mean losses of its steps.
func (s *setup) report(name string, steps int64) func(*trainer.Result) {
	return progress(s.log, name, steps)
}

func progress(log func(string), name string, steps int64) func(*trainer.Result) {
	every := max(steps/10, 1)
	var itc, itm float64
	return func(r *trainer.Result) {
		itc += r.Losses.ITC / float64(every)
		itm += r.Losses.ITM / float64(every)
		if (r.Step+1)%every == 0 {
			log(fmt.Sprintf("%-11s step %5d of %d  itc %.3f  itm %.3f", name, r.Step+1, steps, itc, itm))
			itc, itm = 0, 0
		}
	}
}
