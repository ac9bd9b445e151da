package bootstrap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/trainer"
)

// warmUp is the number of steps over which the rate rises.
const warmUp = 200

// leastHeld is the number of images below which an AUC says too little to end a training.
const leastHeld = 20

// Card says how weights came about, and how well they tell pairs apart. The weights' file has it in its metadata.
type Card struct {
	Images  int     `json:"images"` // trained on
	Pairs   int     `json:"pairs"`
	HeldOut int     `json:"held_out"` // images of the checks
	Batch   int     `json:"batch"`
	Steps   int64   `json:"steps"`
	Seed    uint64  `json:"seed"`
	Stopped string  `json:"stopped"` // what ended the first phase
	Phases  []Phase `json:"phases"`
	// Measured is of the half of the held-out images on which nothing was fitted, with the calibration.
	Measured *eval.CondReport `json:"measured"`
}

// Converge trains a model until the AUC on hard pairs of held no longer rises, in at most o.Steps steps. It then calibrates the
// model on half of held, unless the base rate is 0, and writes weights, calibration and card to path.
//
// The phases are those that made the demo's Con-D: random mini-batches until nothing more is gained, GRIT's mini-batches for as
// long as they help, and random ones again while the rate decays. GRIT's false negatives teach the matching head to doubt true
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
	s.held, err = eval.Held(ctx, held, source, s.examples.Words, m.Config.ImageSize, m.Config.RetrievalTokens(), o.Augment.Workers)
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
