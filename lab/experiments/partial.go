package experiments

import (
	"context"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/demo/models/partial"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// partialKinds are scenes whose captions omit things. Their words do not tell whether a caption is true of another
// picture.
var partialKinds = partial.Scenes(0).Kinds

// newPartial returns X14: what connections are worth where truth needs the picture. Three first models and three Con-Ds
// serve nine seeds, each pair of them one.
func newPartial(short bool, scale int) comparison {
	c := newMAFA(short, scale)
	delete(c.Regime.Conds, "weak")
	first, cond := c.Regime.First, c.Regime.Conds[""]
	first.Kinds, cond.Kinds = partialKinds, partialKinds
	if !short {
		first.Seed, first.Scenes, first.Steps = 1101, 40_000, 12_000
		cond.Seed, cond.Scenes, cond.Steps = 1201, 60_000, 12_000
		c.Sizes.Scenes, c.Sizes.HeldOut = c.Sizes.Scenes-c.Sizes.HeldOut+2000, 2000
	}
	third := first
	third.Seed = 1301
	c.Kinds, c.Regime.First, c.Regime.Conds[""], c.Regime.Third, c.Regime.Versions = partialKinds, first, cond, &third, 3
	c.Arms = partialArms()
	return c
}

func partialArms() []arm {
	const space = 50
	none, all := trainer.ECMOptions{}, converting()
	eliminate := all
	eliminate.Eliminate = true
	instead := func(name string, j judge) arm {
		a := grit(name, space, oneHot, all)
		a.Judge = j
		return a
	}
	return []arm{
		{Name: "random", Strategy: grouper.StrategyRandom, Targets: oneHot},
		{Name: "random, four epochs", Strategy: grouper.StrategyRandom, Targets: oneHot, Epochs: 4},
		grit("grit", space, oneHot, none),
		instead("two candidates", judge{None: true}),
		grit("ecm", space, oneHot, all), // before the coin, which finds as much as Con-D
		grit("eliminate", space, oneHot, eliminate),
		instead("coin", judge{Coin: 0.5}), instead("words", judge{Words: true}), instead("oracle", judge{Oracle: true}),
		grit("smoothed", space, smoothed, none), grit("mafa", space, smoothed, all),
	}
}

// sameWords scores a candidate 1 whose caption has the words of the picture's own, and others 0.
func (s *setup) sameWords() score {
	return func(_ context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
		out := &schemas.ScoredBatch{
			Batch: *b, Masked: in.Masked, ProbI2T: make(schemas.Floats32, len(b.I2T)), ProbT2I: make(schemas.Floats32, len(b.T2I)),
		}
		alike := func(anchor, other int32) float32 {
			if other >= 0 && scenes.SameWords(b.Samples[anchor].Text, b.Samples[other].Text) {
				return 1
			}
			return 0
		}
		for k := range b.I2T {
			anchor := int32(k / int(b.M))
			out.ProbI2T[k], out.ProbT2I[k] = alike(anchor, b.I2T[k]), alike(anchor, b.T2I[k])
		}
		return out, nil
	}
}

// heldMatches tells which held-out captions are true of which held-out images.
func (s *setup) heldMatches() func(image, text int) bool {
	holds := s.data.fits
	if holds == nil {
		holds = func(id schemas.ImageID, caption string) bool { return s.data.says[caption].Holds(s.data.shows[id]) }
	}
	images, texts := s.data.held.Images(), s.data.held.Pairs()
	fits := make([]bool, images*texts) // every model asks all of them again
	for text := range texts {
		caption, _, _ := s.data.held.Pair(text)
		for image := range images {
			_, id := s.data.held.Image(image)
			fits[image*texts+text] = holds(id, caption)
		}
	}
	return func(image, text int) bool { return fits[image*texts+text] }
}
