package experiments

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/torch"
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

// DefaultSizes returns sizes that take a core half a minute for Connections and about a minute for an arm. The
// mini-batches that are compared are small. Among 48 scenes of so few kinds, one is always almost like another, which
// is not so in the papers' millions.
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
	d, err := generateIn(ctx, j.Dir, o, j.Sizes.HeldOut)
	if err != nil {
		return nil, err
	}
	return &setup{
		sizes: j.Sizes, seed: j.Seed, dir: d.dir, worker: j.Worker, data: d, preset: preset, augment: augmentation(), log: j.Log,
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
func (s *setup) close() error { return s.data.close() }

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
		Report: progress(s.log, "first model", steps),
	}, path)
}

// progress returns a function that prints every tenth part of a training, with the mean losses of its steps.
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

// fineTuning says how every arm's model is fine-tuned for retrieval before it is measured once more, as the papers
// measure theirs: on random mini-batches of other scenes, whose captions are all true, with one-hot targets of ITC.
type fineTuning struct {
	Scenes int     `json:"scenes"`
	Epochs int     `json:"epochs"`
	Batch  int     `json:"batch"`
	Rate   float64 `json:"rate"`
}

// tuningSeed is added to a run's seed for the scenes to fine-tune on. No run has such a seed.
const tuningSeed = 10_000

// fineTune returns the weights that each of the given ones becomes.
func (f fineTuning) fineTune(ctx context.Context, s *setup, kinds scenes.Kinds, weights []string) (out []string, err error) {
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side, o.PerShard, o.Kinds = s.seed+tuningSeed, f.Scenes, 1, side, 1000, kinds
	d, err := generate(ctx, filepath.Join(s.dir, "to-fine-tune"), o, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.closeImages()) }()
	on := *s
	on.data, on.sizes = d, Sizes{Batch: f.Batch, Space: 1, Epochs: f.Epochs}
	g, err := on.group(ctx, weights[0])
	if err != nil {
		return nil, err
	}
	options := arm{Targets: oneHot}.options(on.training(on.steps()))
	options.MLMWeight, options.Schedule.Rate, options.Schedule.Min, options.Schedule.WarmupRate = 0, f.Rate, f.Rate/20, f.Rate/10
	for i, w := range weights {
		tuned := filepath.Join(s.dir, fmt.Sprintf("tuned-%d.safetensors", i))
		err := on.train(ctx, w, g, training{
			name: "fine-tuning", sampling: on.sampling(grouper.StrategyRandom, f.Batch, f.Epochs, 0), options: options, score: unscored,
		}, tuned)
		if err != nil {
			return nil, fmt.Errorf("fine-tuning model %d: %w", i, err)
		}
		out = append(out, tuned)
	}
	return out, nil
}

// topIsTrue returns the shares, in percent, of held-out images whose most similar text is true of them, and of texts
// that are true of their most similar image. A true match counts, whoever wrote the text.
func (s *setup) topIsTrue(sim eval.Matrix) (texts, images float64) {
	shown, said := make([]scenes.Scene, sim.Rows), make([]scenes.Statement, sim.Cols)
	for i := range s.data.held.Pairs() {
		text, image, id := s.data.held.Pair(i)
		shown[image], said[i] = s.data.shows[id], s.data.says[text]
	}
	holds := func(image, text int) bool { return said[text].Holds(shown[image]) }
	return 100 * topShare(sim, holds), 100 * topShare(sim.Transposed(), func(text, image int) bool { return holds(image, text) })
}

// topShare returns the share of rows whose largest column holds; of several the first counts.
func topShare(m eval.Matrix, holds func(row, col int) bool) float64 {
	right := 0
	for row := range m.Rows {
		best := 0
		for col, v := range m.Row(row) {
			if v > m.Row(row)[best] {
				best = col
			}
		}
		if holds(row, best) {
			right++
		}
	}
	return share(right, m.Rows)
}

// withTuned returns the arms, the first model fine-tuned, and each of the arms fine-tuned.
func withTuned(arms []arm) []arm {
	out := append(slices.Clone(arms), arm{Name: "tuned first"})
	for _, a := range arms {
		out = append(out, arm{Name: "tuned " + a.Name})
	}
	return out
}
