package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// comparison trains several arms from one start, with equal steps.
type comparison struct {
	Sizes      Sizes        `json:"sizes"`
	Kinds      scenes.Kinds `json:"kinds"`
	Wrong      float64      `json:"wrong,omitempty"` // share of captions that are false
	Irrelevant float64      `json:"irrelevant,omitempty"`
	Regime     *regime      `json:"regime,omitempty"` // nil: every seed trains its own first model and Con-D
	Arms       []arm        `json:"arms"`
	Tuned      *fineTuning  `json:"fine_tuned,omitempty"` // nil: the arms are measured as they are, alone

	// revised asks how much of the texts of each arm is true.
	revised bool
	// verdicts asks how much is true of what Con-D confirms.
	verdicts bool
	// seeing asks for words that are told by the image, and lets the matching head rank.
	seeing bool
}

// arm is one way to train.
type arm struct {
	Name     string           `json:"name"`
	Strategy grouper.Strategy `json:"strategy"`
	Targets  target           `json:"itc"`
	Alone    bool             `json:"itc_alone,omitempty"` // without ITM and MLM
	// ECM says what Con-D's probabilities do. Nothing switched on: Con-D is not asked.
	ECM       trainer.ECMOptions `json:"ecm"`
	Judge     judge              `json:"judge,omitzero"`      // in Con-D's place
	Cond      string             `json:"cond,omitempty"`      // the regime's Con-D of that name, or an earlier arm's model
	Space     int                `json:"space,omitempty"`     // search space of GRIT, in mini-batches; 0: that of the sizes
	Positives *positives         `json:"positives,omitempty"` // of GPN-S; nil: the captions
	Albef     *albef             `json:"albef,omitempty"`     // ALBEF-Base in the place of GRIT-VLP's settings
	Epochs    int                `json:"epochs,omitempty"`    // 0: those of the sizes
}

// grit returns an arm with GRIT's mini-batches.
func grit(name string, space int, t target, ecm trainer.ECMOptions) arm {
	return arm{Name: name, Strategy: grouper.StrategyGRIT, Space: space, Targets: t, ECM: ecm}
}

// converting returns the paper's settings of ECM where nothing is masked.
func converting() trainer.ECMOptions {
	o := trainer.MAFA().ECM
	o.MLM = false
	return o
}

// target names the targets of ITC, the share of their soft part, and the length of the momentum queue.
type target struct {
	Kind  trainer.ITCTargets `json:"targets"`
	Alpha float64            `json:"alpha,omitempty"`
	Queue int                `json:"queue,omitempty"`
}

// The targets of MAFA Table 6, with the papers' shares.
var (
	oneHot      = target{Kind: trainer.OneHot}
	consistency = target{Kind: trainer.Consistency}
	smoothed    = target{Kind: trainer.Smoothed, Alpha: 0.5}
	queued      = target{Kind: trainer.OneHot, Queue: 1024} // of GRIT-VLP Table 5, whose queue has 65,280 features
)

// newComparison returns X2, X3, X4, X5 or X6.
func newComparison(id string, short bool, scale int) comparison {
	c := comparison{Sizes: trainingSizes(short, scale), Kinds: scenes.Kinds{Shapes: 6, Objects: 2, Large: true, Plain: true}}
	switch id {
	case "x3":
		return newJudges(short, scale)
	case "x4":
		return newSoftTargets(short, scale)
	case "x5":
		return c.samplings()
	case "x6":
		return newMasks(short, scale)
	case "x14":
		return newPartial(short, scale)
	}
	return newMAFA(short, scale)
}

// newSoftTargets returns X4: S-ITC, and what becomes of connections, in the papers' regime, measured before and after
// fine-tuning. All begin at the papers' temperature.
func newSoftTargets(short bool, scale int) comparison {
	c := newMAFA(short, scale)
	c.Arms, c.Wrong, c.Irrelevant = nil, 0.15, 0.05
	delete(c.Regime.Conds, "weak")
	c.Regime.Temperature = 0.07
	c.Tuned = &fineTuning{Scenes: 2400, Epochs: 3, Batch: 48, Rate: 3e-4}
	if short {
		c.Tuned.Scenes, c.Tuned.Epochs, c.Tuned.Batch = 32, 1, 8
	} else {
		c.Sizes.Batch = 96
	}
	for _, strategy := range []grouper.Strategy{grouper.StrategyRandom, grouper.StrategyGRIT} {
		for _, t := range []target{oneHot, smoothed} {
			c.Arms = append(c.Arms, arm{Name: string(strategy) + " " + string(t.Kind), Strategy: strategy, Targets: t})
		}
	}
	convert := converting()
	eliminate := convert
	eliminate.Eliminate = true
	c.Arms = append(c.Arms, arm{Name: "grit convert", Strategy: grouper.StrategyGRIT, Targets: oneHot, ECM: convert},
		arm{Name: "grit eliminate", Strategy: grouper.StrategyGRIT, Targets: oneHot, ECM: eliminate})
	return c
}

// samplings returns X5. Its scenes have one object of twelve shapes, which GRIT can tell apart better than a first
// model of few steps does.
func (c comparison) samplings() comparison {
	c.Kinds = scenes.Kinds{Shapes: 12, Objects: 1, Large: true, Plain: true}
	c.Sizes.FirstSteps = min(c.Sizes.FirstSteps, 600)
	c.Arms = []arm{
		{Name: "itc", Strategy: grouper.StrategyRandom, Targets: oneHot, Alone: true},
		{Name: "itc queue", Strategy: grouper.StrategyRandom, Targets: queued, Alone: true},
		{Name: "itc grit", Strategy: grouper.StrategyGRIT, Targets: oneHot, Alone: true},
		{Name: "itc consistency", Strategy: grouper.StrategyGRIT, Targets: consistency, Alone: true},
		{Name: "random", Strategy: grouper.StrategyRandom, Targets: oneHot},
		{Name: "grit", Strategy: grouper.StrategyGRIT, Targets: oneHot},
	}
	return c
}

// judged reports whether Con-D is asked.
func (a arm) judged() bool { return a.ECM.ITC || a.ECM.ITM || a.ECM.MLM }

// options returns the trainer's settings.
func (a arm) options(o trainer.Options) trainer.Options {
	if a.Albef != nil {
		return a.Albef.options(o)
	}
	o.ITC.Targets, o.ITC.SoftFromEpoch = a.Targets.Kind, 0
	if a.Targets.Alpha > 0 {
		o.ITC.Alpha = a.Targets.Alpha
	}
	o.Momentum.Queue = a.Targets.Queue
	if a.Targets.Kind == trainer.Distilled || a.Targets.Queue > 0 {
		o.Momentum.Decay = 0.995
	}
	if a.Alone {
		o.ITMWeight, o.MLMWeight = 0, 0
	}
	if a.judged() {
		o.ECM = a.ECM
	}
	if a.Positives != nil {
		return a.Positives.options(o)
	}
	return o
}

// run trains every arm and measures it on the held-out pairs.
func (c comparison) run(ctx context.Context, j Job) (out []evidence.Measure, err error) {
	j.Sizes = c.Sizes
	s, err := j.noisySetup(ctx, c.Kinds, c.Wrong, c.Irrelevant)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if c.Regime != nil && c.Wrong+c.Irrelevant > 0 {
		s.measureTruth()
	}
	shared, err := c.begin(ctx, j, s)
	if err != nil {
		return nil, err
	}
	cond := shared.cond
	if c.verdicts {
		v, err := s.verdicts(ctx, cond)
		if err != nil {
			return nil, err
		}
		out = append(out, v.measures()...)
	}
	weights := []string{shared.start}
	for i, a := range c.Arms {
		path := filepath.Join(s.dir, fmt.Sprintf("arm-%d.safetensors", i))
		taught, err := s.trainArm(ctx, shared, a, path)
		if err != nil {
			return nil, fmt.Errorf("training %q: %w", a.Name, err)
		}
		if c.revised {
			out = append(out, taught.texts.measures(a.Name, 0)...)
		}
		if (c.verdicts || c.Regime != nil) && a.judged() {
			out = append(out, taught.connections.confirmed(a.Name)...)
			if a.Judge == (judge{}) && a.Cond == "" {
				shared.asked = taught.connections
			}
		}
		if c.Regime != nil {
			out = append(out, taught.negatives.measures(a.Name, 0)...)
			shared.conds[a.Name] = path
		}
		weights = append(weights, path)
	}
	arms := c.Arms
	if c.Tuned != nil {
		tuned, err := c.Tuned.fineTune(ctx, s, c.Kinds, weights)
		if err != nil {
			return nil, err
		}
		arms, weights = withTuned(arms), append(weights, tuned...)
	}
	held, err := c.measure(ctx, s, arms, weights, shared.third)
	out = append(out, held...)
	if c.Regime != nil {
		overX(out)
	}
	return out, err
}

// begin trains or fetches the models that the arms share, and closes their group.
func (c comparison) begin(ctx context.Context, j Job, s *setup) (course, error) {
	shared := course{start: filepath.Join(s.dir, "start.safetensors"), cond: filepath.Join(s.dir, "con-d.safetensors"), steps: s.steps()}
	var err error
	if c.Regime != nil {
		err = c.Regime.models(ctx, j, s, &shared)
	} else if err = s.first(ctx, s.sizes.FirstSteps, bootstrap.Candidates, shared.start); err == nil && c.judged() {
		err = s.first(ctx, s.sizes.CondSteps, condCandidates, shared.cond)
	}
	if shared.embeds == "" {
		shared.embeds = shared.start
	}
	if err == nil {
		shared.group, err = s.group(ctx, shared.embeds)
	}
	return shared, err
}

// judged reports whether any arm asks Con-D.
func (c comparison) judged() bool { return slices.ContainsFunc(c.Arms, arm.judged) }

// course is what the arms of a seed share.
type course struct {
	group       *group
	steps       int64
	start, cond string  // weights with which the arms begin, and of Con-D
	embeds      string  // weights that embed the pairs
	third       string  // weights that choose the mismatches; empty: those with which the arms begin do
	regime      *regime // nil: Con-D scores all others
	conds       map[string]string
	asked       *Connections // what Con-D did in an arm of its own; nil before
}

// taught is what an arm learned from.
type taught struct {
	texts       retrieval    // what its texts say
	connections *Connections // what was confirmed in its mini-batches; nil: no one was asked
	negatives   falseNegatives
}

// steps returns how many mini-batches an arm learns from.
func (s *setup) steps() int64 {
	batches := (len(s.data.pairs) + s.sizes.Batch - 1) / s.sizes.Batch
	return int64(s.sizes.Epochs * batches)
}

// trainArm trains one arm. Con-D, or who takes its place, scores all others of a mini-batch, so that the choice is
// exactly MAFA's.
func (s *setup) trainArm(ctx context.Context, c course, a arm, out string) (taught, error) {
	var t taught
	epochs, steps := s.sizes.Epochs, c.steps
	if a.Epochs > 0 {
		steps = steps / int64(epochs) * int64(a.Epochs)
		epochs = a.Epochs
	}
	candidates, score := 0, unscored
	if c.regime != nil {
		candidates = c.regime.Candidates
	}
	if a.judged() {
		t.connections = newConnections(s.seed, a.ECM.High)
		if c.regime == nil {
			candidates = s.sizes.Batch - 1
		}
		switch {
		case a.Judge.Words:
			score = s.sameWords()
		case a.Judge != (judge{}):
			score = s.toss(a.Judge.coin(c.asked))
		default:
			con, err := s.openCond(ctx, c.path(a.Cond))
			if err != nil {
				return t, err
			}
			defer con.model.Free()
			score = con.all
		}
		score = s.counted(t.connections, score)
	}
	how := training{
		name: a.Name, sampling: s.sampling(a.Strategy, s.sizes.Batch, epochs, candidates), options: a.options(s.training(steps)), score: score,
	}
	if a.Space > 0 {
		how.sampling.SearchSpace = a.Space * s.sizes.Batch
	}
	if c.regime != nil {
		how.options.MLMWeight = 0
	}
	if a.Positives != nil {
		how.sampling = a.Positives.sampling(how.sampling)
	}
	how.batch = func(b *schemas.Batch) error {
		if c.regime != nil {
			t.negatives.add(s.data.truth(b))
		}
		if a.Positives != nil {
			return s.data.countTexts(&t.texts, b)
		}
		return nil
	}
	err := s.train(ctx, c.start, c.group, how, out)
	if t.connections != nil {
		t.connections.finish()
	}
	return t, err
}

// compareArms evaluates the first model and the arms on the held-out pairs, with the same hard negatives for all. It
// hands each report to read, with the name of the arm and the path of its weights.
func (s *setup) compareArms(ctx context.Context, arms []arm, weights []string, o eval.Options, read func(name, path string, r *eval.Report) error) error {
	var err error
	if o.Mining == nil {
		if o.Mining, err = s.mining(ctx, weights...); err != nil {
			return err
		}
	}
	for i, path := range weights {
		name := "first"
		if i > 0 {
			name = arms[i-1].Name
		}
		r, err := s.evaluate(ctx, path, o)
		if err != nil {
			return err
		}
		if err := read(name, path, r); err != nil {
			return err
		}
	}
	return nil
}

// measure asks all models about the same hard negatives, and lets them retrieve. With a third model, which no arm has
// learned from, that one chooses the negatives, and every true match counts as found.
func (c comparison) measure(ctx context.Context, s *setup, arms []arm, weights []string, third string) (out []evidence.Measure, err error) {
	ask := byITC
	switch {
	case c.seeing:
		ask = seeing
	case c.matching():
		ask = reranked
	}
	if third != "" {
		ask.AnyTrue, ask.Matches = true, s.heldMatches()
	}
	if c.Regime != nil {
		if ask.Mining, err = s.hardestOfAll(ctx, cmp.Or(third, weights[0])); err != nil {
			return nil, err
		}
	}
	err = s.compareArms(ctx, arms, weights, ask, func(name, _ string, r *eval.Report) error {
		texts, images := s.topIsTrue(r.Sim)
		out = append(out, evidence.Measure{Arm: name, Name: "itm_error", Value: r.Match.Error},
			evidence.Measure{Arm: name, Name: "tr_r1", Value: texts}, evidence.Measure{Arm: name, Name: "ir_r1", Value: images},
			evidence.Measure{Arm: name, Name: "rsum", Value: r.ITC.RSUM()})
		out = append(out, seen(name, r)...)
		if c.matching() {
			out = append(out, matched(name, r)...)
		}
		return nil
	})
	return out, err
}
