package experiments

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/experiments/evidence"
	"github.com/pairstream/pairstream/internal/nouns"
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
	s, _, shared, err := g.begin(ctx, j)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	tagger, err := nouns.Load()
	if err != nil {
		return nil, err
	}
	guard := guardSettings{Candidates: g.Candidates, Least: g.Least}
	for _, asked := range []struct{ name, path string }{{"Con-D", shared.cond}, {"first", shared.start}} {
		checks, truth, err := guard.measure(ctx, s, shared.group, asked.path, tagger, g.Thresholds...)
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
