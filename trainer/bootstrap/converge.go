package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/trainer"
)

// warmUp is the number of steps over which the rate rises.
const warmUp = 200

// leastHeld is the number of images below which an AUC says too little to end a training.
const leastHeld = 20

// Converge trains a model until the AUC on hard pairs of held no longer rises, in at most o.Steps steps. It then
// calibrates the model on half of held, unless the base rate is 0, and writes weights, calibration and card to path.
//
// The phases made the demo's Con-D: random mini-batches until the AUC stops rising, GRIT's mini-batches for as long as
// they help, and random ones again while the rate decays. GRIT's false negatives teach the matching head to doubt true
// pairs. Random mini-batches have few, so that it trusts them again.
func Converge(ctx context.Context, w *torch.Worker, source *shard.Images, data, held *dataset.Corpus, o Options, c Converging, path string) (*Card, error) {
	err := errors.Join(o.Validate(), c.Validate())
	if o.Steps > 0 && o.Steps < 10 {
		err = errors.Join(err, fmt.Errorf("%d steps at most, want at least 10 for three phases", o.Steps))
	}
	if n := held.Images(); n < leastHeld {
		err = errors.Join(err, fmt.Errorf("%d held-out images, want at least %d to see when to stop: keep more back, or give a number of steps", n, leastHeld))
	}
	if err == nil && data.Pairs() < o.Batch {
		err = fmt.Errorf("%d pairs to train on, want at least a batch of %d", data.Pairs(), o.Batch)
	}
	if err != nil {
		return nil, fmt.Errorf("bootstrapping: %w", err)
	}
	f, err := newFitting(ctx, w, o)
	if err != nil {
		return nil, err
	}
	f.options.Schedule.Kind, f.options.Schedule.WarmupSteps = trainer.StreamSteps, min(warmUp, o.Steps/10)
	t, positions, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	defer t.Free()
	r := rules{most: o.Steps, patience: c.Patience, perEpoch: int64(data.Pairs() / o.Batch), hard: c.Walk != nil}
	s := stretches{fitting: f, trainer: t, rules: r, course: newCourse(r), converging: c, seed: o.Seed}
	if t.Steps() > 0 {
		s.course = course{}
		if err := json.Unmarshal(positions, &s.course); err != nil {
			return nil, fmt.Errorf("going on from a checkpoint in %s: it is not of a training that ends by itself (%w): give another folder, or the same --steps", o.Checkpoints.Dir, err)
		}
	}
	if s.examples, err = f.examples(ctx, t.Model(), source, data); err != nil {
		return nil, err
	}
	m := t.Model()
	s.held, err = eval.Held(ctx, held, source, s.examples.Words, m.Config.ImageSize, m.Config.RetrievalTokens())
	if err != nil {
		return nil, err
	}
	if err := s.run(ctx); err != nil {
		return nil, err
	}
	card := &Card{
		Images: data.Images(), Pairs: data.Pairs(), HeldOut: held.Images(), Batch: o.Batch, Steps: t.Steps(), Seed: o.Seed,
		Stopped: s.course.stopped(), Phases: s.course.Phases,
	}
	return card, s.finish(ctx, card, path)
}

// stretches runs a course.
type stretches struct {
	fitting    fitting
	trainer    *trainer.Trainer
	examples   *dataset.Training
	held       eval.Data
	rules      rules
	course     course
	converging Converging
	seed       uint64
}

// run trains stretch by stretch, with a check behind each.
func (s *stretches) run(ctx context.Context) error {
	for s.course.Phase != "" {
		if err := s.stretch(ctx); err != nil {
			return err
		}
		answers, err := s.ask(ctx, eval.CondOptions{})
		if err != nil {
			return err
		}
		before, auc := s.course.Phase, answers.HardAUC()
		best := s.course.best(auc)
		s.course.check(auc, s.rules)
		if s.converging.Checked != nil {
			s.converging.Checked(Check{Step: s.trainer.Steps(), Phase: before, HardAUC: auc, Best: best, Left: s.left()})
		}
		if s.course.Phase == Harden {
			if err := s.walk(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// left returns the steps that are left at most.
func (s *stretches) left() int64 {
	switch s.course.Phase {
	case "":
		return 0
	case Settle:
		return s.course.To - s.trainer.Steps()
	}
	return s.rules.most - s.trainer.Steps()
}

// stretch trains to the end of the open stretch.
func (s *stretches) stretch(ctx context.Context) error {
	loop := s.fitting.loop
	loop.Steps, loop.Epoch, loop.EpochStep = s.course.To, s.course.Epoch, s.course.EpochStep
	loop.Order, loop.Decay = s.course.Order, s.course.decay()
	if s.course.Phase == Harden {
		loop.Candidates = 0 // all others: they are there because they are hard
	}
	var err error
	if loop.Positions, err = json.Marshal(s.course); err != nil {
		return fmt.Errorf("writing how far a training has come: %w", err)
	}
	return s.trainer.Bootstrap(ctx, s.examples, loop)
}

// ask asks the model about the held-out pairs.
func (s *stretches) ask(ctx context.Context, o eval.CondOptions) (answers *eval.Cond, err error) {
	o.BaseRate, o.Seed = s.converging.BaseRate, s.seed
	err = s.trainer.Look(func(m *model.Model) error {
		answers, err = eval.AskCond(ctx, m, s.held, o)
		return err
	})
	return answers, err
}

// finish calibrates the model, completes the card and writes both with the weights.
func (s *stretches) finish(ctx context.Context, card *Card, path string) error {
	answers, err := s.ask(ctx, eval.CondOptions{Easy: true})
	if err != nil {
		return err
	}
	var calibration *model.Calibration
	if s.converging.BaseRate > 0 {
		if calibration, err = answers.Half(false).Calibrate(); err != nil {
			return err
		}
	}
	card.Measured = answers.Half(true).Report(calibration)
	text, err := json.Marshal(card)
	if err != nil {
		return fmt.Errorf("writing the card of the weights: %w", err)
	}
	m := s.trainer.Model()
	m.Calibration, m.Card = calibration, string(text)
	return save(ctx, m, path)
}

// The phases of a training that ends by itself, as its card names them.
const (
	Learn  = "random"   // random mini-batches at one rate, until nothing more is gained
	Harden = "hard"     // GRIT's mini-batches, until nothing more is gained
	Settle = "settling" // random mini-batches, while the rate decays
)

const (
	firstCheck = 250    // steps before the first check, and least between two
	leastRise  = 0.0005 // of the AUC on hard pairs, that counts
	hasLearned = 0.6    // AUC below which nothing has begun: a matching head stays at 0.5 for long, and then rises
	hardRounds = 2      // without a rise that end the hard phase
)

// rules are the parameters of a course, apart from its checks.
type rules struct {
	most     int64 // steps in all
	patience int   // checks without a rise that end the first phase
	perEpoch int64 // steps of an epoch of random mini-batches
	hard     bool  // whether there is a hard phase
}

// course is the state of a training that ends by itself: its open stretch of steps, with a check at the end. A
// checkpoint has it as JSON.
type course struct {
	Phase string `json:"phase"` // empty: it has ended
	Begun int64  `json:"begun"` // first step of the phase
	From  int64  `json:"from"`  // first step of the stretch
	To    int64  `json:"to"`    // step before which it ends
	Epoch int64  `json:"epoch"` // begins with step EpochStep
	// EpochStep is From in the hard phase, whose stretches are epochs. In the others it is the phase's first step.
	EpochStep int64   `json:"epoch_step"`
	Order     []int   `json:"order,omitempty"` // of the stretch; nil: random
	Round     int     `json:"round,omitempty"` // stretches of the hard phase before this one
	Best      float64 `json:"best"`            // AUC on hard pairs, in this phase; -1: none yet
	Since     int     `json:"since"`           // checks without a rise
	Phases    []Phase `json:"phases,omitempty"`
	Bounded   bool    `json:"bounded,omitempty"` // whether the most steps ended the first phase
}

func newCourse(r rules) course {
	return course{Phase: Learn, To: min(firstCheck, r.learning()), Best: -1}
}

// learning returns the most steps of the first phase. The rest is for the others.
func (r rules) learning() int64 { return max(1, r.most*7/10) }

// hardening returns the step before which the hard phase ends.
func (r rules) hardening() int64 { return max(1, r.most*9/10) }

// settling returns the steps of the last phase, behind so many.
func (r rules) settling(done int64) int64 { return max(1, min(max(firstCheck, done/6), r.most-done)) }

// waits reports whether an AUC shows that nothing has been learned yet. An earlier one above hasLearned was luck, and
// does not count.
func (c *course) waits(auc float64) bool { return c.Phase == Learn && auc < hasLearned }

// best returns the best AUC of the phase, once the one of the open stretch is known.
func (c *course) best(auc float64) float64 {
	if c.waits(auc) {
		return auc
	}
	return max(c.Best, auc)
}

// check takes the AUC on hard pairs at the end of the open stretch, and opens the next one.
func (c *course) check(auc float64, r rules) {
	c.Since++
	if c.waits(auc) || auc >= c.Best+leastRise {
		c.Best, c.Since = auc, 0
	}
	switch c.Phase {
	case Learn:
		c.Bounded = c.To >= r.learning()
		if !c.Bounded && c.Since < r.patience {
			c.From = c.To
			c.To = min(c.From+max(firstCheck, c.From/10), r.learning())
			return
		}
		c.end(auc)
		if c.Phase = Settle; r.hard {
			c.Phase = Harden
		}
	case Harden:
		c.Round++
		if c.Since < hardRounds && c.To < r.hardening() {
			c.stretch(c.roundOf(r), r)
			return
		}
		c.end(auc)
		c.Phase = Settle
	case Settle:
		c.end(auc)
		c.Phase, c.Order = "", nil
		return
	}
	c.Best, c.Since, c.Begun = -1, 0, c.To
	steps := r.settling(c.To)
	if c.Phase == Harden {
		steps = c.roundOf(r)
	}
	c.stretch(steps, r)
}

// end notes the phase that has ended.
func (c *course) end(auc float64) {
	c.Phases = append(c.Phases, Phase{MiniBatches: c.Phase, Steps: c.To - c.Begun, HardAUC: auc})
}

// roundOf returns the steps of a round of the hard phase: an epoch, and no more than a quarter of the first phase.
func (c *course) roundOf(r rules) int64 {
	return max(1, min(r.perEpoch, c.Phases[0].Steps/4, r.hardening()-c.To))
}

// stretch opens a stretch that begins an epoch.
func (c *course) stretch(steps int64, r rules) {
	per := r.perEpoch
	if c.Order != nil {
		per = c.To - c.From
	}
	c.Epoch += (c.To-c.EpochStep-1)/per + 1
	c.From, c.EpochStep, c.Order = c.To, c.To, nil
	c.To += steps
}

// stopped describes why the first phase ended.
func (c *course) stopped() string {
	if c.Bounded {
		return "most steps"
	}
	return "no further rise"
}

// decay returns the number of steps, the last ones of the stretch, over which the rate decays.
func (c *course) decay() int64 {
	if c.Phase == Settle {
		return c.To - c.From
	}
	return 0
}

// Converging sets when a training ends by itself.
type Converging struct {
	Patience int     // checks without a rise of the AUC on hard pairs that end the phase of random mini-batches
	BaseRate float64 // share of true pairs among the hard ones, for the calibration; 0: there is none
	// Walk puts similar pairs beside each other, for mini-batches of a size; nil: there is no hard phase.
	Walk Walk
	// Checked is told of every check; may be nil.
	Checked func(Check)
}

// DefaultPatience is the number of checks in a row without a rise that end the first phase. They are the further apart
// the longer it takes: the last four are over about a third of its steps.
const DefaultPatience = 4

// Check is the result of a check.
type Check struct {
	Step    int64
	Phase   string // the phase that continues, or has ended
	HardAUC float64
	Best    float64 // of the phase
	Left    int64   // steps that are left at most
}

// Validate returns every invalid option, joined.
func (c Converging) Validate() error {
	var l invalid.List
	l.Refuse(c.Patience < 1, "patience of %d checks, want at least 1", c.Patience)
	l.Refuse(c.BaseRate < 0 || c.BaseRate >= 1, "base rate is %g, want 0 to less than 1", c.BaseRate)
	return l.Err()
}
