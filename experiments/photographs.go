package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/experiments/evidence"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// photographSettings are those of X9.
type photographSettings struct {
	Preset  string               `json:"preset"`
	Side    int                  `json:"side"` // of its pictures, in pixels
	Twins   twinSizes            `json:"twins"`
	Sizes   Sizes                `json:"sizes"`
	Augment dataset.Augmentation `json:"augmentation"`
	Arms    []arm                `json:"arms"`
	Scenes  int                  `json:"scenes,omitempty"` // generated in the place of photographs, in a short run
}

func photographSizes(short bool) photographSettings {
	all := trainer.MAFA().ECM
	s := photographSettings{
		Preset: "tiny", Side: 64, Twins: twinSizes{Captions: 5, Unseen: 100, Kept: 100},
		Sizes:   Sizes{FirstSteps: 600, CondSteps: 1500, FirstBatch: 48, Batch: 24, Space: 4, Epochs: 6},
		Augment: dataset.Augmentation{MinScale: 0.6, Flip: 0.5, Color: 0.1, Workers: 2},
		Arms: []arm{
			{Name: "random", Strategy: grouper.StrategyRandom, Targets: consistency},
			{Name: "grit", Strategy: grouper.StrategyGRIT, Targets: consistency},
			{Name: "smoothed", Strategy: grouper.StrategyGRIT, Targets: smoothed},
			{Name: "mafa", Strategy: grouper.StrategyGRIT, Targets: smoothed, ECM: all},
		},
	}
	if short {
		s.Preset, s.Side, s.Scenes = "micro", 32, 40
		s.Sizes = Sizes{FirstSteps: 5, CondSteps: 5, FirstBatch: 16, Batch: 8, Space: 3, Epochs: 1}
	}
	return s
}

// run trains the arms on twins of photographs and measures Con-D on them.
func (p photographSettings) run(ctx context.Context, j Job) (out []evidence.Measure, err error) {
	dir, err := os.MkdirTemp(j.Dir, "experiment-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for twins and weights: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	photos, err := p.photographs(ctx, j, dir)
	if err != nil {
		return nil, err
	}
	t, err := newTwins(ctx, filepath.Join(dir, "twins"), photos, p.Twins, p.Side, j.Seed)
	if err != nil {
		return nil, err
	}
	t.dir = dir
	s := &setup{sizes: p.Sizes, seed: j.Seed, dir: dir, worker: j.Worker, data: t.data, preset: p.Preset, augment: p.Augment, log: j.Log}
	defer func() { err = errors.Join(err, s.close()) }()
	start, cond := filepath.Join(dir, "start.safetensors"), filepath.Join(dir, "con-d.safetensors")
	if err := s.first(ctx, p.Sizes.FirstSteps, bootstrap.Candidates, start); err != nil {
		return nil, err
	}
	if err := s.first(ctx, p.Sizes.CondSteps, condCandidates, cond); err != nil {
		return nil, err
	}
	g, err := newGroup(ctx, s.worker, start, s.data.images, s.data.pairs, s.seed)
	if err != nil {
		return nil, err
	}
	c, err := s.judge(ctx, g, cond)
	if err != nil {
		return nil, err
	}
	out = c.measures()
	shared := course{group: g, steps: s.steps(), start: start, cond: cond}
	weights := []string{start}
	for i, a := range p.Arms {
		path := filepath.Join(dir, fmt.Sprintf("arm-%d.safetensors", i))
		if _, err := s.trainArm(ctx, shared, a, path); err != nil {
			return nil, fmt.Errorf("training %q: %w", a.Name, err)
		}
		weights = append(weights, path)
	}
	held, err := p.measure(ctx, s, t, weights)
	return append(out, held...), err
}

// photographs returns the folder of photographs. In a short run without one it draws scenes with as many captions.
func (p photographSettings) photographs(ctx context.Context, j Job, dir string) (string, error) {
	if p.Scenes == 0 && j.Photos != "" {
		return j.Photos, nil
	}
	if p.Scenes == 0 {
		return "", errors.New("it wants photographs with five captions each: give --photographs a folder of tars")
	}
	o := scenes.Defaults()
	o.Seed, o.Scenes, o.Captions, o.Side = j.Seed, p.Scenes, p.Twins.Captions, 64
	drawn := filepath.Join(dir, "drawn")
	return drawn, scenes.WriteDir(ctx, drawn, o, nil)
}

// measure lets the models find unseen photographs, and seen ones by captions that nobody has seen. The matching error is on
// unseen photographs, with the same negatives for all.
func (p photographSettings) measure(ctx context.Context, s *setup, t *twinned, weights []string) (out []evidence.Measure, err error) {
	err = s.compareArms(ctx, p.Arms, weights, byITC, func(name, path string, unseen *eval.Report) error {
		seen, err := s.evaluateOn(ctx, path, t.seen, byITC)
		if err != nil {
			return err
		}
		out = append(out, evidence.Measure{Arm: name, Name: "itm_error", Value: unseen.Match.Error},
			evidence.Measure{Arm: name, Name: "unseen", Value: unseen.ITC.RSUM()}, evidence.Measure{Arm: name, Name: "seen", Value: seen.ITC.RSUM()})
		return nil
	})
	return out, err
}
