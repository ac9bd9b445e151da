package experiments

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/experiments/evidence"
	"github.com/pairstream/pairstream/internal/nouns"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// photographGuard are the settings of X12: the models of X9, and no arms.
type photographGuard struct {
	photographSettings
	Thresholds []float64 `json:"thresholds"`
	Least      float64   `json:"least"`
}

func photographGuardSizes(short bool) photographGuard {
	g := photographGuard{photographSettings: photographSizes(short), Thresholds: evidence.GuardedThresholds(), Least: discriminator.LeastPrecision}
	g.Arms = nil
	return g
}

// run makes the first model and the Con-D of X9, and lets the guard measure both.
func (g photographGuard) run(ctx context.Context, j Job) (out []evidence.Measure, err error) {
	dir, err := os.MkdirTemp(j.Dir, "experiment-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for twins and weights: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, _, initial, err := g.setup(ctx, j, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	start, cond := filepath.Join(dir, "start.safetensors"), filepath.Join(dir, "con-d.safetensors")
	if err := g.learn(ctx, s, initial, g.Sizes.FirstSteps, bootstrap.Candidates, start); err != nil {
		return nil, err
	}
	if err := g.learn(ctx, s, start, g.Sizes.CondSteps, g.CondCandidates, cond); err != nil {
		return nil, err
	}
	group, err := newGroup(ctx, s.worker, start, s.data.images, s.data.pairs, s.seed)
	if err != nil {
		return nil, err
	}
	tagger, err := nouns.Load()
	if err != nil {
		return nil, err
	}
	guard := guardSettings{Candidates: g.Candidates, Least: g.Least}
	for _, asked := range []struct{ name, path string }{{"Con-D", cond}, {"first", start}} {
		checks, truth, err := guard.measure(ctx, s, group, asked.path, tagger, g.Thresholds...)
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", asked.name, err)
		}
		s.tellGuarded(asked.name, checks, truth)
		for i, x := range g.Thresholds {
			out = append(out, guarded(asked.name, x, checks[i], truth.Above[i], truth)...)
			if asked.name == "Con-D" {
				out = append(out, guarded(evidence.OfSeed(s.seed), x, checks[i], truth.Above[i], truth)...)
			}
		}
	}
	return out, nil
}
