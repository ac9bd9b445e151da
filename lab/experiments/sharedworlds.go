package experiments

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/duplicates"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/lab/experiments/towers"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// emojiWorld is X15: things that several hands drew. lab/worlds/emoji.py makes the folder.
type emojiWorld struct{ worldSettings }

func newEmojiWorld(short bool) emojiWorld {
	s := worldSettings{photographSettings: photographSizes(short), Hold: 400, Versions: 3, Captions: 1}
	s.Towers, s.Twins, s.FirstRate, s.Rate, s.Dropout = "", twinSizes{Captions: 3}, firstRate, rate, 0
	if !short {
		s.Sizes = Sizes{FirstSteps: 8000, CondSteps: 8000, FirstBatch: 64, Batch: 48, Space: 10, Epochs: 3}
	}
	s.Candidates, s.CondCandidates = 2, 4
	s.Arms = sharedArms(s.Sizes.Space, true)
	return emojiWorld{s}
}

func (e emojiWorld) run(ctx context.Context, j Job) (_ []evidence.Measure, err error) {
	if e.Scenes == 0 {
		if j.Photos == "" {
			return nil, errors.New("it wants a world of emoji: make it with lab/worlds/emoji.py, and give its folder to --photographs")
		}
		if e.Digest, err = digestOf(j.Photos); err != nil { // models on the shelf are of one folder
			return nil, err
		}
	}
	return e.runOn(ctx, j, func(dir string) (*parted, error) {
		if e.Scenes > 0 {
			return e.ofPhotographs(ctx, j, dir, true)
		}
		d, err := e.data(ctx, j, dir)
		return &parted{data: d, known: true}, err
	})
}

// photographWorld is X16: photographs that two pretrained towers have looked at, as they were captioned.
type photographWorld struct{ worldSettings }

func newPhotographWorld(short bool) photographWorld {
	s := worldSettings{photographSettings: photographSizes(short), Versions: 3, Captions: 2}
	s.Twins = twinSizes{Captions: 5}
	if !short {
		s.Sizes = Sizes{FirstSteps: 600, CondSteps: 2400, FirstBatch: 48, Batch: 48, Space: 10, Epochs: 3}
	}
	s.Candidates = 2
	s.Arms = sharedArms(s.Sizes.Space, false)
	return photographWorld{s}
}

func (p photographWorld) run(ctx context.Context, j Job) ([]evidence.Measure, error) {
	return p.runOn(ctx, j, func(dir string) (*parted, error) { return p.ofPhotographs(ctx, j, dir, false) })
}

// sharedArms returns the arms of X15 and X16. Where the truth is known, a coin and the truth are asked as well.
func sharedArms(space int, known bool) []arm {
	none, all := trainer.ECMOptions{}, converting()
	eliminate := all
	eliminate.Eliminate = true
	instead := func(name string, j judge) arm {
		a := grit(name, space, oneHot, all)
		a.Judge = j
		return a
	}
	list := []arm{
		{Name: "random", Strategy: grouper.StrategyRandom, Targets: oneHot},
		{Name: "random, a third more", Strategy: grouper.StrategyRandom, Targets: oneHot, Epochs: 4},
		grit("grit", space, oneHot, none), instead("two candidates", judge{None: true}),
		grit("ecm", space, oneHot, all), grit("eliminate", space, oneHot, eliminate),
	}
	if known {
		list = append(list, instead("oracle", judge{Oracle: true}))
	}
	return append(list, grit("mafa", space, smoothed, all))
}

// ofPhotographs publishes the photographs to learn from with all their captions, and holds the others out with the
// caption that people judged. Of published pairs no one knows which captions of other photographs are true.
func (s worldSettings) ofPhotographs(ctx context.Context, j Job, dir string, known bool) (*parted, error) {
	var w *judgedWorld
	var err error
	if s.Scenes > 0 {
		w, err = judgedSettings{photographSettings: s.photographSettings}.drawnWorld(ctx, j, dir)
	} else {
		w, err = readJudged(ctx, j)
	}
	if err != nil {
		return nil, err
	}
	tars := duplicates.New(filepath.Join(dir, "photographs"))
	tars.Folder("train")
	var published []towers.Pair
	for i, p := range w.train {
		tars.Add(i, p.encoded, p.captions...)
		for _, c := range p.captions {
			published = append(published, towers.Pair{Picture: p.encoded, Caption: c})
		}
	}
	tars.Folder("held")
	for i, p := range append(w.dev, w.test...) {
		tars.Add(len(w.train)+i, p.encoded, p.captions[caption])
	}
	if err := tars.Close(); err != nil {
		return nil, err
	}
	d := &data{fits: tars.Fits, dir: dir}
	if d.train, _, err = dataset.Read(ctx, tars.Folders()[:1], 0); err != nil {
		return nil, err
	}
	if d.held, _, err = dataset.Read(ctx, tars.Folders()[1:], 0); err != nil {
		return nil, err
	}
	_, err = shard.Scan(ctx, tars.Folders()[:1], shard.Visitor{
		Example: func(ex shard.Example) error { d.pairs = append(d.pairs, shard.Pairs(ex)...); return nil },
		Problem: func(shard.Problem) error { return nil }, // two captions of a photograph that are equal
	})
	if err != nil {
		return nil, err
	}
	d.vocab = token.BuildVocab(d.train.Captions, 2000, 1)
	if d.images, d.closeImages, err = bootstrap.Images(ctx, tars.Folders(), s.Shape.ImageSize, 1<<30); err != nil {
		return nil, err
	}
	out := &parted{data: d, known: known}
	if w.Towers != nil {
		out.initial = func(seed uint64, path string) error {
			return w.Start(ctx, j.Worker, s.Shape, dataset.Join(d.train, d.held).Captions, published, seed, path)
		}
	}
	return out, nil
}
