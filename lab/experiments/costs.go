package experiments

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// costSettings are those of X10.
type costSettings struct {
	Sizes      Sizes        `json:"sizes"`
	Kinds      scenes.Kinds `json:"kinds"`
	First      FirstModel   `json:"first"`
	Cond       FirstModel   `json:"cond"`
	Candidates int          `json:"candidates"` // of a pair and direction, that Con-D scores
	Arms       []costArm    `json:"arms"`
}

// costArm is a recipe whose processor time is measured.
type costArm struct {
	Name     string           `json:"name"`
	Strategy grouper.Strategy `json:"strategy"`
	Momentum bool             `json:"momentum,omitempty"` // ALBEF's distillation
	Queue    int              `json:"queue,omitempty"`    // of momentum features
	Con      conUse           `json:"con,omitempty"`
}

// conUse says how Con-D is asked.
type conUse string

const (
	conNot  conUse = ""
	conKept conUse = "kept" // as the discriminator's stage does by default
	conAll  conUse = "all"  // as in the paper: about every candidate, with the augmented images of training
)

// newCosts returns X10: the recipes of MAFA Table 12, with all losses.
func newCosts(short bool, scale int) costSettings {
	c := costSettings{
		Sizes: Sizes{Scenes: 960 * scale, Batch: 48, Space: 10, Epochs: 3}, Kinds: models.Scenes(0).Kinds,
		First: firstModel(), Cond: condModel(), Candidates: 2,
	}
	if short {
		c.Sizes = Sizes{Scenes: 96 * scale, Batch: 8, Space: 2, Epochs: 2}
		c.First, c.Cond = briefModel(), briefModel()
	}
	const queued = 65_536 / 512 // mini-batches in ALBEF's queue
	c.Arms = []costArm{
		{Name: "random", Strategy: grouper.StrategyRandom},
		{Name: "albef", Strategy: grouper.StrategyRandom, Momentum: true, Queue: queued * c.Sizes.Batch},
		{Name: "grit", Strategy: grouper.StrategyGRIT},
		{Name: "mafa", Strategy: grouper.StrategyGRIT, Con: conKept},
		{Name: "mafa all", Strategy: grouper.StrategyGRIT, Con: conAll},
	}
	return c
}

// options returns the trainer's settings.
func (a costArm) options(o trainer.Options) trainer.Options {
	switch {
	case a.Momentum:
		o.ITC.Targets, o.ITC.Alpha = trainer.Distilled, 0.4
		o.Momentum.Decay, o.Momentum.Queue = 0.995, a.Queue
		o.MLMDistill, o.MaskProbability, o.ITMNegatives = 0.4, 0.15, trainer.MultinomialNegatives
	case a.Con != conNot:
		o.ITC.Targets, o.ECM = trainer.Smoothed, trainer.MAFA().ECM
	case a.Strategy == grouper.StrategyRandom:
		o.ITC.Targets = trainer.OneHot
	}
	return o
}

// run measures every arm.
func (c costSettings) run(ctx context.Context, j Job) (out []evidence.Measure, err error) {
	j.Sizes = c.Sizes
	s, err := j.setup(ctx, c.Kinds)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	start, err := j.Shelf.model(ctx, s.worker, c.First, s.log)
	if err != nil {
		return nil, err
	}
	cond, err := j.Shelf.model(ctx, s.worker, c.Cond, s.log)
	if err != nil {
		return nil, err
	}
	g, err := s.group(ctx, start)
	if err != nil {
		return nil, err
	}
	for _, a := range c.Arms {
		spent, err := s.cost(ctx, c, a, start, cond, g)
		if err != nil {
			return nil, fmt.Errorf("training %q: %w", a.Name, err)
		}
		out = append(out, spent.measures(a.Name, len(s.data.pairs))...)
	}
	return out, nil
}

// cost trains one arm, and measures its epochs.
func (s *setup) cost(ctx context.Context, c costSettings, a costArm, start, cond string, g *group) (*spending, error) {
	spent := &spending{}
	candidates, score := 0, unscored
	if a.Con != conNot {
		plain := *s
		plain.augment = dataset.Augmentation{MinScale: 1, Workers: s.augment.Workers}
		con, err := plain.openCond(ctx, cond)
		if err != nil {
			return nil, err
		}
		defer con.model.Free()
		ask := con.all
		if a.Con == conKept {
			ask = con.kept()
		}
		candidates, score = c.Candidates, spent.timed(ask)
	}
	how := training{
		name: a.Name, sampling: s.sampling(a.Strategy, s.sizes.Batch, s.sizes.Epochs, candidates), options: a.options(s.training(s.steps())),
		score: score, batch: spent.batch,
	}
	how.options.MLMWeight = 1
	spent.begin()
	err := s.train(ctx, start, g, how, filepath.Join(s.dir, "cost.safetensors"))
	spent.end()
	return spent, err
}

// kept returns a function that asks as the discriminator's stage does by default.
func (c conD) kept() score {
	const scores, bytes = 4_000_000, 256 << 20 // the stage's defaults
	kept, bound := discriminator.NewKept(scores, bytes), discriminator.NewBound(c.Fingerprint(), trainer.MAFA().ECM.Low)
	return func(ctx context.Context, b *schemas.Batch, _ discriminator.Input) (*schemas.ScoredBatch, error) {
		in := discriminator.Input{IDs: c.IDs(b), Kept: kept, Bound: bound}
		var samples []int32
		in.Held, samples = kept.Hold(b, nil)
		var spared []schemas.Mask
		for _, i := range samples {
			spared = append(spared, schemas.Mask{Sample: i})
		}
		var err error
		if in.Pixels, in.Masked, err = c.Images(ctx, b, spared); err != nil {
			return nil, err
		}
		return c.Score(ctx, b, in)
	}
}

// spending is the processor time of a training, by epoch.
type spending struct {
	all, con []time.Duration
	mark     time.Duration
}

// begin begins the first epoch.
func (s *spending) begin() { s.mark = machine.ProcessorTime() }

// batch is shown every mini-batch. The first one of a later epoch ends the epoch before; to form it belongs to that
// one.
func (s *spending) batch(b *schemas.Batch) error {
	for len(s.all) < int(b.Epoch) {
		s.end()
	}
	if len(s.con) == int(b.Epoch) {
		s.con = append(s.con, 0)
	}
	return nil
}

// end ends an epoch.
func (s *spending) end() {
	now := machine.ProcessorTime()
	s.all, s.mark = append(s.all, now-s.mark), now
}

// timed adds what Con-D takes to the epoch.
func (s *spending) timed(ask score) score {
	return func(ctx context.Context, b *schemas.Batch, in discriminator.Input) (*schemas.ScoredBatch, error) {
		defer s.askedAt(b.Epoch)()
		return ask(ctx, b, in)
	}
}

// askedAt begins to count for Con-D. The returned function ends it.
func (s *spending) askedAt(epoch int32) (end func()) {
	began := machine.ProcessorTime()
	return func() { s.con[epoch] += machine.ProcessorTime() - began }
}

// measures returns milliseconds a pair, of all epochs and of each, and Con-D's time as a share of everything else.
func (s *spending) measures(arm string, pairs int) (out []evidence.Measure) {
	var all, con time.Duration
	add := func(x, epochs int, all, con time.Duration) {
		each := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(pairs*epochs) }
		out = append(out, evidence.Measure{Arm: arm, X: float64(x), Name: "ms", Value: each(all)},
			evidence.Measure{Arm: arm, X: float64(x), Name: "con", Value: each(con)},
			evidence.Measure{Arm: arm, X: float64(x), Name: "share", Value: con.Seconds() / max(all-con, 1).Seconds()})
	}
	for i := range s.all {
		all, con = all+s.all[i], con+s.con[i]
		add(i+1, 1, s.all[i], s.con[i])
	}
	add(0, len(s.all), all, con)
	return out
}
