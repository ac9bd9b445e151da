package experiments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // photographs
	_ "image/png"  // generated scenes may stand for photographs
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/duplicates"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/lab/experiments/towers"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// photographSettings are those of X9.
type photographSettings struct {
	Towers         string       `json:"towers"` // their version
	Shape          model.Config `json:"shape"`  // of what is trained on what the towers see
	Twins          twinSizes    `json:"twins"`
	Sizes          Sizes        `json:"sizes"`
	FirstRate      float64      `json:"first_rate"` // of the first model and of Con-D
	Rate           float64      `json:"rate"`       // of the arms
	Dropout        float64      `json:"dropout"`
	CondCandidates int          `json:"cond_candidates"` // among which Con-D's hard negatives are looked for
	Candidates     int          `json:"candidates"`      // of the hardest of a mini-batch, which Con-D scores
	Arms           []arm        `json:"arms"`
	Scenes         int          `json:"scenes,omitempty"` // generated in the place of photographs, in a short run without towers
}

func photographSizes(short bool) photographSettings {
	none, all := trainer.ECMOptions{}, converting()
	s := photographSettings{
		Towers: towers.Version(), Shape: shapeOnTowers(), Twins: twinSizes{Captions: 5, Unseen: 100, Kept: 100},
		Sizes:     Sizes{FirstSteps: 800, CondSteps: 600, FirstBatch: 48, Batch: 48, Space: 5, Epochs: 2},
		FirstRate: 5e-4, Rate: 3e-4, Dropout: 0.1,
		CondCandidates: 8, Candidates: 8,
		Arms: []arm{
			{Name: "random", Strategy: grouper.StrategyRandom, Targets: oneHot},
			grit("grit", 5, oneHot, none), grit("ecm", 5, oneHot, all),
			grit("smoothed", 5, smoothed, none), grit("mafa", 5, smoothed, all),
		},
	}
	if short {
		s.Towers, s.Scenes = "", 40
		s.Sizes = Sizes{FirstSteps: 5, CondSteps: 5, FirstBatch: 16, Batch: 8, Space: 3, Epochs: 1}
		s.CondCandidates, s.Candidates = 4, 4
	}
	return s
}

// shapeOnTowers returns the shape of the model on the towers: the preset micro with less depth, since towers have much.
func shapeOnTowers() model.Config {
	c, err := model.Preset("micro", 1)
	if err != nil {
		panic(err) // a preset of this repository
	}
	c.VisionDepth, c.TextLayers, c.FusionLayer, c.EmbedDim = 1, 3, 1, c.VisionDim
	return c
}

// run trains the arms on twins of photographs and measures Con-D on them.
func (p photographSettings) run(ctx context.Context, j Job) (out []evidence.Measure, err error) {
	s, t, shared, err := p.begin(ctx, j)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	c, err := s.judge(ctx, shared.group, shared.cond)
	if err != nil {
		return nil, err
	}
	out = c.measures()
	weights := []string{shared.start}
	for i, a := range p.Arms {
		path := filepath.Join(s.dir, fmt.Sprintf("arm-%d.safetensors", i))
		taught, err := s.trainArm(ctx, shared, a, path)
		if err != nil {
			return nil, fmt.Errorf("training %q: %w", a.Name, err)
		}
		out = append(out, taught.negatives.measures(a.Name, 0)...)
		weights = append(weights, path)
	}
	held, err := p.measure(ctx, s, t, weights)
	return append(out, held...), err
}

// begin trains the first model and Con-D on twins of photographs, and closes their group.
func (p photographSettings) begin(ctx context.Context, j Job) (_ *setup, _ *twinned, c course, err error) {
	dir, err := os.MkdirTemp(j.Dir, "experiment-")
	if err != nil {
		return nil, nil, c, fmt.Errorf("making a folder for twins and weights: %w", err)
	}
	s, t, initial, err := p.setup(ctx, j, dir)
	if err != nil {
		return nil, nil, c, errors.Join(err, os.RemoveAll(dir))
	}
	c = course{steps: s.steps(), start: filepath.Join(dir, "start.safetensors"), cond: filepath.Join(dir, "con-d.safetensors"), regime: &regime{Candidates: p.Candidates}}
	err = p.learn(ctx, s, initial, p.Sizes.FirstSteps, bootstrap.Candidates, c.start)
	if err == nil {
		err = p.learn(ctx, s, c.start, p.Sizes.CondSteps, p.CondCandidates, c.cond)
	}
	if err == nil {
		c.group, err = s.group(ctx, c.start)
	}
	if err != nil {
		return nil, nil, c, errors.Join(err, s.close())
	}
	return s, t, c, nil
}

// setup parts the photographs and makes the initial weights of the models on the towers.
func (p photographSettings) setup(ctx context.Context, j Job, dir string) (*setup, *twinned, string, error) {
	seen, err := p.photographs(ctx, j, dir)
	if err != nil {
		return nil, nil, "", err
	}
	t, err := newTwins(ctx, filepath.Join(dir, "twins"), seen.photographs, p.Twins, p.Shape.ImageSize, j.Seed)
	if err != nil {
		return nil, nil, "", err
	}
	t.dir = dir
	s := &setup{
		sizes: p.Sizes, seed: j.Seed, dir: dir, worker: j.Worker, data: t.data, preset: "micro",
		augment: dataset.Augmentation{MinScale: 1, Workers: 2}, rate: p.Rate, dropout: p.Dropout, log: j.Log,
	}
	initial := ""
	if seen.Towers != nil {
		initial = filepath.Join(dir, "initial.safetensors")
		err = seen.Start(ctx, j.Worker, p.Shape, dataset.Join(t.train, t.held, t.seen).Captions, t.published, j.Seed, initial)
	}
	if err != nil {
		return nil, nil, "", errors.Join(err, s.close())
	}
	return s, t, initial, nil
}

// learn trains a model on random mini-batches of the twins.
func (p photographSettings) learn(ctx context.Context, s *setup, initial string, steps int64, candidates int, path string) error {
	return bootstrap.Train(ctx, s.worker, s.data.images, s.data.train, bootstrap.Options{
		Preset: s.preset, Vocab: s.data.vocab, Start: initial, Steps: steps, Batch: s.sizes.FirstBatch, Rate: p.FirstRate, Dropout: p.Dropout, Seed: s.seed,
		Augment: s.augment, Weights: bootstrap.Weights{ITC: 1, ITM: 1}, Candidates: candidates, Report: progress(s.log, filepath.Base(path), steps),
	}, path)
}

// photographs returns what the towers see of photographs. In a short run it draws scenes with as many captions, which
// are small enough to go without towers.
func (p photographSettings) photographs(ctx context.Context, j Job, dir string) (*sight, error) {
	if p.Scenes == 0 && j.Photos == "" {
		return nil, errors.New("it wants photographs with five captions each: give --photographs a folder of tars")
	}
	if p.Scenes == 0 {
		return j.Shelf.see(ctx, j.Worker, j.Photos, p.Twins.Captions, j.Log)
	}
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side = j.Seed, p.Scenes, p.Twins.Captions, 64
	drawn := filepath.Join(dir, "drawn")
	if err := scenes.WriteDir(ctx, drawn, o, nil); err != nil {
		return nil, err
	}
	all, err := readPhotographs(ctx, drawn, p.Twins.Captions)
	return &sight{photographs: all}, err
}

// measure lets the models find unseen photographs, and seen ones by captions that nobody has seen. All are asked about
// the same hard negatives, which the first model finds hardest in blocks of unseen photographs.
func (p photographSettings) measure(ctx context.Context, s *setup, t *twinned, weights []string) (out []evidence.Measure, err error) {
	ask := reranked
	if ask.Mining, err = s.mining(ctx, weights[0]); err != nil {
		return nil, err
	}
	err = s.compareArms(ctx, p.Arms, weights, ask, func(name, path string, unseen *eval.Report) error {
		kept, err := s.evaluateOn(ctx, path, t.seen, byITC)
		if err != nil {
			return err
		}
		m := func(what string, v float64) { out = append(out, evidence.Measure{Arm: name, Name: what, Value: v}) }
		m("unseen", unseen.ITC.RSUM())
		m("itm_rsum", unseen.ITM.RSUM())
		m("seen", kept.ITC.RSUM())
		m("itc_r10", (unseen.ITC.TR.R10+unseen.ITC.IR.R10)/2)
		if name == "first" {
			out = append(out, evidence.Measure{Arm: "chance", Name: "itc_r1", Value: (unseen.Chance.TR.R1 + unseen.Chance.IR.R1) / 2},
				evidence.Measure{Arm: "chance", Name: "itc_r10", Value: (unseen.Chance.TR.R10 + unseen.Chance.IR.R10) / 2},
				evidence.Measure{Arm: "chance", Name: "unseen", Value: unseen.Chance.RSUM()})
		}
		out = append(out, matched(name, unseen)...)
		return nil
	})
	return out, err
}

// photograph is an image with its captions, and a twin for each of them.
type photograph struct {
	number   int
	encoded  []byte
	captions []string
	twins    [][]byte
}

// twinSizes say how photographs are parted.
type twinSizes struct {
	Captions int `json:"captions"` // published of every photograph; those with fewer are left out
	Unseen   int `json:"unseen"`   // photographs that are not published; at most a fifth of all
	Kept     int `json:"kept"`     // published photographs of which one caption is kept back; at most a fifth of all
}

// leastPhotographs is how many photographs are needed for a part of each kind.
const leastPhotographs = 10

// twinned are photographs of which every caption is published with an image of its own. The other captions of a
// photograph are then false negatives, known here and not to the pipeline.
type twinned struct {
	*data                 // its held pairs are those of photographs that are not published
	seen  *dataset.Corpus // published photographs, each with the caption that was kept back

	published []towers.Pair // the twins with their captions
}

// newTwins writes photographs and their twins into a folder and reads them back. A seed parts them in its own way.
func newTwins(ctx context.Context, dir string, photos []photograph, sizes twinSizes, side int, seed uint64) (*twinned, error) {
	if len(photos) < leastPhotographs {
		return nil, fmt.Errorf("%d images with %d captions or more, want at least %d", len(photos), sizes.Captions, leastPhotographs)
	}
	all := slices.Clone(photos)
	draws := rng.New(seed, "experiments.twins")
	draws.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	w := duplicates.New(dir)
	unseen, kept, last := min(sizes.Unseen, len(all)/5), min(sizes.Kept, len(all)/5), sizes.Captions-1
	w.Folder("unseen")
	for _, p := range all[:unseen] {
		w.Add(p.number, p.encoded, p.captions...)
	}
	w.Folder("seen")
	for _, p := range all[unseen : unseen+kept] {
		w.Add(p.number, p.encoded, p.captions[last])
	}
	w.Folder("twins")
	var published []towers.Pair
	for i, p := range all[unseen:] {
		if i < kept {
			p.captions = p.captions[:last]
		}
		for j, caption := range p.captions {
			w.Add(p.number, p.twins[j], caption)
			published = append(published, towers.Pair{Picture: p.twins[j], Caption: caption})
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	t, err := readTwins(ctx, w, side)
	if err == nil {
		t.published = published
	}
	return t, err
}

// readPhotographs reads images with so many captions or more, in the order of the tars, and makes their twins.
func readPhotographs(ctx context.Context, photos string, captions int) (all []photograph, err error) {
	draws := rng.New(0, "experiments.twins") // all seeds share the twins
	_, err = shard.Scan(ctx, []string{photos}, shard.Visitor{
		Example: func(ex shard.Example) error {
			if len(ex.Captions) < captions {
				return nil
			}
			p := photograph{number: len(all), encoded: slices.Clone(ex.Encoded), captions: ex.Captions[:captions]}
			if err := p.multiply(draws); err != nil {
				return fmt.Errorf("image %d of %s: %w", p.number, photos, err)
			}
			all = append(all, p)
			return nil
		},
		Problem: func(shard.Problem) error { return nil }, // an image less
	})
	return all, err
}

// multiply makes a twin for every caption.
func (p *photograph) multiply(draws *rand.Rand) error {
	im, _, err := image.Decode(bytes.NewReader(p.encoded))
	if err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	for range p.captions {
		twin, err := duplicates.Crop(im, draws)
		if err != nil {
			return err
		}
		p.twins = append(p.twins, twin)
	}
	return nil
}

// readTwins reads the folders back.
func readTwins(ctx context.Context, w *duplicates.Writer, side int) (*twinned, error) {
	var parts [3]*dataset.Corpus // unseen, seen, twins
	for i, name := range w.Folders() {
		var err error
		if parts[i], _, err = dataset.Read(ctx, []string{name}, 0); err != nil {
			return nil, err
		}
	}
	t := &twinned{seen: parts[1], data: &data{held: parts[0], train: parts[2]}}
	_, err := shard.Scan(ctx, w.Folders()[2:], shard.Visitor{
		Example: func(ex shard.Example) error { t.pairs = append(t.pairs, shard.Pairs(ex)...); return nil },
		Problem: func(p shard.Problem) error { return fmt.Errorf("reading twins: %s", p) },
	})
	if err != nil {
		return nil, err
	}
	t.fits = w.Fits
	t.vocab = token.BuildVocab(t.train.Captions, 2000, 2)
	t.images, t.closeImages, err = bootstrap.Images(ctx, w.Folders(), side, 1<<30)
	return t, err
}
