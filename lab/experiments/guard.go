package experiments

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/nouns"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// guardSettings are those of X11.
type guardSettings struct {
	Sizes Sizes                 `json:"sizes"`
	Kinds scenes.Kinds          `json:"kinds"`
	First FirstModel            `json:"first"` // its vectors form the mini-batches
	Conds map[string]FirstModel `json:"conds"`
	// Candidates is how many of the hardest of a mini-batch Con-D scores.
	Candidates int     `json:"candidates"`
	High       float64 `json:"high"`
	Least      float64 `json:"least"`
}

// guardedConds are the Con-Ds in the order in which X11 asks them.
var guardedConds = []string{"con-d", "first", "weak"}

func guardSizes(short bool, scale int) guardSettings {
	s := guardSettings{
		Sizes: Sizes{Scenes: 2450 * scale, HeldOut: 50, FirstBatch: 48, Batch: 48, Space: 10, Epochs: 1},
		Kinds: models.Scenes(0).Kinds, First: firstModel(), Candidates: 2, High: trainer.MAFA().ECM.High, Least: discriminator.LeastPrecision,
		Conds: map[string]FirstModel{"con-d": condModel(), "first": firstModel(), "weak": weakCond()},
	}
	if short {
		s.Sizes.Scenes, s.Sizes.HeldOut = 250*scale, 10
		brief := briefModel()
		s.First, s.Conds = brief, map[string]FirstModel{"con-d": brief, "first": brief, "weak": brief}
	}
	return s
}

// run lets the guard measure every Con-D on the first mini-batches of a group, and compares what it says with the truth
// of the whole group.
func (g guardSettings) run(ctx context.Context, j Job) (out []evidence.Measure, err error) {
	j.Sizes = g.Sizes
	s, err := j.setup(ctx, g.Kinds)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	first, err := j.Shelf.model(ctx, s.worker, g.First, s.log)
	if err != nil {
		return nil, err
	}
	group, err := s.group(ctx, first)
	if err != nil {
		return nil, err
	}
	for _, name := range guardedConds {
		path, err := j.Shelf.model(ctx, s.worker, g.Conds[name], s.log)
		if err != nil {
			return nil, err
		}
		checks, truth, err := g.measure(ctx, s, group, path, g.High)
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", name, err)
		}
		s.tellGuarded(name, checks, truth)
		out = append(out, guarded(name, 0, checks[0], truth.Above[0], truth)...)
	}
	return out, nil
}

// measure returns the guard's verdict and the truth above each threshold.
func (g guardSettings) measure(ctx context.Context, s *setup, group *group, cond string, thresholds ...float64) ([]schemas.Check, *Connections, error) {
	tagger, err := tagger()
	if err != nil {
		return nil, nil, err
	}
	m := measuring{least: g.Least, checks: make([]schemas.Check, len(thresholds)), truth: newConnections(s.seed, thresholds...)}
	for i := range m.checks {
		m.checks[i].Open = true
	}
	con, err := s.openCond(ctx, cond)
	if err != nil {
		return nil, nil, err
	}
	defer con.model.Free()
	err = group.batches(ctx, s.sampling(grouper.StrategyGRIT, s.sizes.Batch, 1, g.Candidates), func(b *schemas.Batch) (*schemas.FeatureBlock, error) {
		in, err := con.input(ctx, b)
		if err != nil {
			return nil, err
		}
		if m.open() {
			k, err := con.ask(ctx, b, in, tagger, s.seed)
			if err != nil {
				return nil, err
			}
			m.add(k)
		}
		scored, err := con.Score(ctx, b, in)
		if err == nil {
			s.count(m.truth, scored)
		}
		return nil, err
	})
	m.truth.finish()
	return m.checks, m.truth, err
}

// measuring is what is known of a Con-D so far, with a guard for each threshold.
type measuring struct {
	least  float64
	known  discriminator.Known
	checks []schemas.Check
	truth  *Connections
}

// open reports whether a guard wants to know more.
func (m *measuring) open() bool {
	return slices.ContainsFunc(m.checks, func(c schemas.Check) bool { return c.Open })
}

// add takes a mini-batch into the measurements that are open.
func (m *measuring) add(k discriminator.Known) {
	m.known.Add(k)
	for i, v := range m.truth.Above {
		if m.checks[i].Open {
			m.checks[i] = m.known.Check(v.High, m.least, discriminator.People{})
		}
	}
}

// ask asks what the guard asks about a mini-batch.
func (c conD) ask(ctx context.Context, b *schemas.Batch, in discriminator.Input, tagger *nouns.Tagger, seed uint64) (discriminator.Known, error) {
	q := discriminator.NewQuestions(b, in.Masked, tagger, rng.New(seed, "known positives", int64(b.Sequence)))
	return c.Known(ctx, b, in, q, c.Words(q.Edits))
}

// tellGuarded logs what the guard says, beside the truth.
func (s *setup) tellGuarded(name string, checks []schemas.Check, truth *Connections) {
	for i := range checks {
		s.log(fmt.Sprintf("%s: true are %.3f of the connections and %.3f of the candidates; %s", name, truth.Above[i].Precision, share(truth.True, truth.Candidates), &checks[i]))
	}
}

// guarded returns what is reported of the guard at one threshold.
func guarded(arm string, x float64, check schemas.Check, v Verdict, truth *Connections) []evidence.Measure {
	m := func(name string, value float64) evidence.Measure {
		return evidence.Measure{Arm: arm, X: x, Name: name, Value: value}
	}
	is := func(holds bool) float64 {
		if holds {
			return 1
		}
		return 0
	}
	p := check.Precision
	return []evidence.Measure{
		m("precision", v.Precision), m("recall", v.Recall), m("base", share(truth.True, truth.Candidates)),
		m("estimate", p.Value), m("low", p.Low), m("high", p.High), m("estimated_base", p.Base),
		m("covered", is(p.Low <= v.Precision && v.Precision <= p.High)), m("on", is(!check.Off())), m("off", is(check.Off())),
		m("positives", float64(check.Positives)), m("negatives", float64(p.Negatives)), m("auc", check.AUC),
	}
}

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
	guard := guardSettings{Candidates: g.Candidates, Least: g.Least}
	for _, asked := range []struct{ name, path string }{{"Con-D", shared.cond}, {"first", shared.start}} {
		checks, truth, err := guard.measure(ctx, s, shared.group, asked.path, g.Thresholds...)
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
