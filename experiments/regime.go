package experiments

import (
	"context"

	"github.com/pairstream/pairstream/experiments/evidence"
	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/scenes"
	"github.com/pairstream/pairstream/trainer"
)

// regime is that of the papers: a first model and Con-Ds that have converged, on other scenes than the arms'. All seeds
// share them.
type regime struct {
	First FirstModel            `json:"first"`
	Conds map[string]FirstModel `json:"conds"` // by name; the empty name is the one that is asked when an arm names none
	// Candidates is how many of the hardest of a mini-batch Con-D scores, and the trainer chooses from.
	Candidates int `json:"candidates"`
}

// models fetches the weights from the shelf.
func (r *regime) models(ctx context.Context, j Job, s *setup, to *course) (err error) {
	to.regime, to.conds = r, map[string]string{}
	if to.start, err = j.Shelf.model(ctx, s.worker, r.First, s.log); err != nil {
		return err
	}
	for name, m := range r.Conds {
		if to.conds[name], err = j.Shelf.model(ctx, s.worker, m, s.log); err != nil {
			return err
		}
	}
	to.cond = to.conds[""]
	return nil
}

// path returns the weights of a Con-D. The first model can take its place.
func (c course) path(cond string) string {
	if cond == "first" {
		return c.start
	}
	if path, known := c.conds[cond]; known {
		return path
	}
	return c.cond
}

// reranked lets the matching head rank the 16 most similar again.
var reranked = eval.Options{TopK: 16}

// hardestOfAll returns a model's similarities of all held-out pairs. Captions that are true of a picture by chance come last.
func (s *setup) hardestOfAll(ctx context.Context, weights string) (*eval.Matrix, error) {
	r, err := s.evaluate(ctx, weights, byITC)
	if err != nil {
		return nil, err
	}
	s.passOver(&r.Sim, func(int, int) bool { return true })
	return &r.Sim, nil
}

// matched returns what a report says of the matching head, and of retrieval with it.
func matched(arm string, r *eval.Report) []evidence.Measure {
	m := func(name string, v float64) evidence.Measure { return evidence.Measure{Arm: arm, Name: name, Value: v} }
	return []evidence.Measure{
		m("auc", r.Match.AUC), m("false_alarms", r.Match.Negative), m("misses", r.Match.Positive),
		m("itc_r1", (r.ITC.TR.R1+r.ITC.IR.R1)/2), m("itm_r1", (r.ITM.TR.R1+r.ITM.IR.R1)/2),
	}
}

// mafaKinds are scenes in which a few captions are true of other pictures, and many nearly are.
func mafaKinds() scenes.Kinds {
	return scenes.Kinds{Shapes: 8, Objects: 3, Large: true, Plain: true}
}

// newMAFA returns X2: sampling, ECM and S-ITC in the papers' regime, and Con-Ds of several qualities.
func newMAFA(short bool, scale int) comparison {
	kinds := mafaKinds()
	first := FirstModel{Preset: preset, Side: side, Seed: 1001, Scenes: 9600, Captions: 1, Steps: 3000, Batch: 64, Matching: true, Candidates: 4, Kinds: kinds}
	cond := func(steps int64) FirstModel {
		f := first
		f.Seed, f.Steps = 1002, steps
		return f
	}
	c := comparison{
		Sizes: Sizes{Scenes: 10100 * scale, HeldOut: 500, Batch: 48, Space: 10, Epochs: 3}, Kinds: kinds,
		Regime: &regime{First: first, Conds: map[string]FirstModel{"": cond(8000), "weak": cond(500)}, Candidates: 2},
	}
	all := trainer.MAFA().ECM
	all.MLM = false
	grit := func(name string, space int, t target, ecm trainer.ECMOptions) arm {
		return arm{Name: name, Strategy: grouper.StrategyGRIT, Space: space, Targets: t, ECM: ecm}
	}
	c.Arms = []arm{
		{Name: "random", Strategy: grouper.StrategyRandom, Targets: oneHot},
		grit("grit 480", 10, oneHot, trainer.ECMOptions{}),
		grit("grit 2400", 50, oneHot, trainer.ECMOptions{}),
		grit("ecm 480", 10, oneHot, all),
		grit("ecm 2400", 50, oneHot, all),
	}
	oracle := grit("oracle", 50, oneHot, all)
	oracle.Judge = judge{Oracle: true}
	c.Arms = append(c.Arms, oracle)
	return c
}
