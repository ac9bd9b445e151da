package experiments

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/demo/models"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/trainer"
)

// regime is that of the papers: a first model and Con-Ds that have converged, on other scenes than the arms'. All seeds
// share them.
type regime struct {
	First FirstModel            `json:"first"`
	Start *FirstModel           `json:"start,omitempty"` // with which the arms begin; nil: with First, which embeds the pairs
	Conds map[string]FirstModel `json:"conds"`           // by name; the empty name is the one that is asked when an arm names none
	// Candidates is how many of the hardest of a mini-batch Con-D scores, and the trainer chooses from.
	Candidates int `json:"candidates"`
	// Third chooses the mismatches that all are asked about; nil: First does.
	Third *FirstModel `json:"third,omitempty"`
	// Versions is how many first models and Con-Ds there are. They differ in their seeds, and each pair of them serves one of
	// Versions * Versions seeds in a row; 0: one of each.
	Versions int `json:"versions,omitempty"`
	// Temperature is that of ITC with which the arms begin, 0.07 in the papers; 0: the first model's own.
	Temperature float64 `json:"temperature,omitempty"`
}

// matching reports whether the arms have a matching head to ask, in the papers' regime.
func (c comparison) matching() bool {
	return c.Regime != nil && slices.ContainsFunc(c.Arms, func(a arm) bool { return !a.Alone })
}

// models fetches the weights from the shelf.
func (r *regime) models(ctx context.Context, j Job, s *setup, to *course) (err error) {
	to.regime, to.conds = r, map[string]string{}
	first, cond := evidence.Versions(j.Seed, r.Versions)
	if to.embeds, err = j.Shelf.model(ctx, s.worker, r.First.version(first), s.log); err != nil {
		return err
	}
	if r.Third != nil {
		if to.third, err = j.Shelf.model(ctx, s.worker, *r.Third, s.log); err != nil {
			return err
		}
	}
	to.start = to.embeds
	if r.Start != nil {
		if to.start, err = j.Shelf.model(ctx, s.worker, *r.Start, s.log); err != nil {
			return err
		}
	}
	if r.Temperature > 0 {
		if to.start, err = s.withTemperature(to.start, r.Temperature); err != nil {
			return err
		}
	}
	for name, m := range r.Conds {
		if to.conds[name], err = j.Shelf.model(ctx, s.worker, m.version(cond), s.log); err != nil {
			return err
		}
	}
	to.cond = to.conds[""]
	return nil
}

// version returns the model of another seed.
func (f FirstModel) version(n uint64) FirstModel {
	f.Seed += 10 * n
	return f
}

// withTemperature copies weights, with another temperature of ITC.
func (s *setup) withTemperature(weights string, temperature float64) (string, error) {
	f, err := safetensors.Open(weights)
	if err != nil {
		return "", err
	}
	var tensors []safetensors.NamedTensor
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		if name == "temp" {
			t = safetensors.FromFloat32s([]float32{float32(temperature)})
		}
		tensors = append(tensors, safetensors.NamedTensor{Name: name, Tensor: t})
	}
	to := filepath.Join(s.dir, "warmer.safetensors")
	return to, safetensors.WriteFile(to, tensors, f.Metadata)
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

// hardestOfAll returns a model's similarities of all held-out pairs. Captions that are true of a picture by chance come
// last.
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

// overX moves the number at the end of an arm's name, a search space or the precision of a coin, to the measure's x.
func overX(list []evidence.Measure) {
	for i, m := range list {
		at := strings.LastIndexByte(m.Arm, ' ')
		if x, err := strconv.ParseFloat(m.Arm[at+1:], 64); at > 0 && err == nil {
			list[i].Arm, list[i].X = m.Arm[:at], x
		}
	}
}

// firstModel returns how the first model of the demo and of X2 is made.
func firstModel() FirstModel {
	return FirstModel{
		Preset: models.Preset, Side: side, Seed: 1001, Scenes: 9600, Captions: 1, Steps: 3000, Batch: 64,
		Matching: true, Candidates: 4, Kinds: models.Scenes(0).Kinds,
	}
}

// briefModel returns one that has learned nothing, to test the way.
func briefModel() FirstModel {
	f := firstModel()
	f.Scenes, f.Steps, f.Batch = 100, 10, 16
	return f
}

// condModel returns how their Con-D is made. It learns for longer, from more scenes, and at last from GRIT's negatives:
// it is asked about the hardest candidates.
func condModel() FirstModel {
	f := firstModel()
	f.Seed, f.Scenes, f.Steps, f.Space, f.Epochs, f.Settle = 1002, 40_000, 8000, 5, 2, 1
	return f
}

// weakCond returns a Con-D that has hardly begun to learn.
func weakCond() FirstModel {
	f := firstModel()
	f.Seed, f.Steps = 1003, 500
	return f
}

// newMAFA returns X2: sampling, ECM and S-ITC in the papers' regime, and others in Con-D's place.
func newMAFA(short bool, scale int) comparison {
	c := comparison{
		Sizes:  Sizes{Scenes: 10_100 * scale, HeldOut: 500, Batch: 48, Space: 10, Epochs: 3},
		Kinds:  models.Scenes(0).Kinds,
		Regime: &regime{First: firstModel(), Conds: map[string]FirstModel{"": condModel(), "weak": weakCond()}, Candidates: 2},
	}
	if short {
		c.Sizes = Sizes{Scenes: 156 * scale, HeldOut: 60, Batch: 8, Space: 2, Epochs: 1}
		brief := briefModel()
		c.Regime.First, c.Regime.Conds = brief, map[string]FirstModel{"": brief, "weak": brief}
	}
	none, all := trainer.ECMOptions{}, converting()
	eliminate := all
	eliminate.Eliminate = true
	instead := func(name string, space int, cond string, j judge) arm {
		a := grit(name, space, oneHot, all)
		a.Cond, a.Judge = cond, j
		return a
	}
	c.Arms = []arm{
		{Name: "random", Strategy: grouper.StrategyRandom, Targets: oneHot},
		grit("grit 240", 5, oneHot, none), grit("grit 480", 10, oneHot, none), grit("grit 2400", 50, oneHot, none),
		grit("ecm 480", 10, oneHot, all), // before the coins, which find what Con-D finds here
		instead("coin 0.5", 10, "", judge{Coin: 0.5}), instead("coin 0.25", 10, "", judge{Coin: 0.25}),
		instead("oracle 480", 10, "", judge{Oracle: true}), instead("first 480", 10, "first", judge{}), instead("weak 480", 10, "weak", judge{}),
		grit("ecm 2400", 50, oneHot, all), instead("oracle 2400", 50, "", judge{Oracle: true}), grit("eliminate 2400", 50, oneHot, eliminate),
		grit("smoothed 480", 10, smoothed, none), grit("mafa 2400", 50, smoothed, all),
	}
	return c
}
