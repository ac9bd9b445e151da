package trainer

import (
	"fmt"
	"math"
)

// ScheduleKind names a learning-rate schedule.
type ScheduleKind string

const (
	// CosineSteps warms up linearly over WarmupSteps and then follows half a cosine down to Min at TotalSteps, where it
	// stays: the schedule for a stream, which has steps but no epochs over a fixed data set.
	CosineSteps ScheduleKind = "cosine"
	// ReferenceEpochs is the schedule of the ALBEF, GRIT-VLP and MAFA pre-training drivers, see [Schedule].
	ReferenceEpochs ScheduleKind = "reference"
)

// Schedule gives the learning rate of every step, counted from 0. It depends on nothing but the step, so a restarted
// trainer needs no schedule state.
//
// ReferenceEpochs does what the authors' drivers do, oddities included: the cosine is a function of the epoch alone and
// spans Epochs epochs even when fewer are trained (30 and 20 in GRIT-VLP, so that the rate ends at 3.67e-5); the
// "warm-up epochs" are WarmupSteps updates of the rate inside epoch 0, one after every WarmupStride iterations and after
// the optimiser's step, so that the rate first changes at iteration WarmupStride+1; an epoch 0 that is shorter than
// that cuts the warm-up short.
type Schedule struct {
	Kind       ScheduleKind `env:"LR_SCHEDULE" envDefault:"cosine" desc:"cosine: warm-up and cosine over steps; reference: the papers' tables over epochs"`
	Rate       float64      `env:"LR" envDefault:"1e-4" desc:"highest learning rate"`                  // ALBEF, GRIT-VLP, MAFA: 1e-4 (retrieval fine-tuning 1e-5)
	Min        float64      `env:"LR_MIN" envDefault:"1e-5" desc:"learning rate at the end"`           // 1e-5 in the papers' configuration
	WarmupRate float64      `env:"LR_WARMUP" envDefault:"1e-5" desc:"learning rate of the first step"` // 1e-5 in the papers' configuration

	// WarmupSteps is the number of steps (CosineSteps) or of rate updates (ReferenceEpochs: 20) from WarmupRate to Rate.
	WarmupSteps int64 `env:"LR_WARMUP_STEPS" envDefault:"2000" desc:"steps of warm-up; updates of the rate with LR_SCHEDULE=reference, where the papers have 20"`
	TotalSteps  int64 `env:"LR_TOTAL_STEPS" envDefault:"100000" desc:"LR_SCHEDULE=cosine: step that reaches LR_MIN; later ones stay there"`

	Epochs       int64 `env:"LR_EPOCHS" envDefault:"30" desc:"LR_SCHEDULE=reference: length of the cosine in epochs"`
	EpochSteps   int64 `env:"LR_EPOCH_STEPS" envDefault:"10000" desc:"LR_SCHEDULE=reference: steps of an epoch"`
	WarmupStride int64 `env:"LR_WARMUP_STRIDE" envDefault:"100" desc:"LR_SCHEDULE=reference: iterations between two updates of the warm-up"`
}

// Validate reports every setting that makes no schedule.
func (s Schedule) Validate() []error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(s.Rate > 0, "LR is %g, want more than 0", s.Rate)
	bad(s.Min >= 0 && s.Min <= s.Rate, "LR_MIN is %g, want 0..%g (LR)", s.Min, s.Rate)
	bad(s.WarmupRate >= 0, "LR_WARMUP is %g, want 0 or more", s.WarmupRate)
	bad(s.WarmupSteps >= 0, "LR_WARMUP_STEPS is %d, want 0 or more", s.WarmupSteps)
	switch s.Kind {
	case CosineSteps:
		bad(s.TotalSteps > s.WarmupSteps, "LR_TOTAL_STEPS is %d, want more than LR_WARMUP_STEPS=%d", s.TotalSteps, s.WarmupSteps)
	case ReferenceEpochs:
		bad(s.Epochs > 0, "LR_EPOCHS is %d, want at least 1", s.Epochs)
		bad(s.EpochSteps > 0, "LR_EPOCH_STEPS is %d, want at least 1", s.EpochSteps)
		bad(s.WarmupStride > 0, "LR_WARMUP_STRIDE is %d, want at least 1", s.WarmupStride)
	default:
		bad(false, "LR_SCHEDULE is %q, want %q or %q", s.Kind, CosineSteps, ReferenceEpochs)
	}
	return errs
}

// At is the rate that the optimiser uses at the given step.
func (s Schedule) At(step int64) float64 {
	if s.Kind == ReferenceEpochs {
		return s.AtIteration(step/s.EpochSteps, step%s.EpochSteps)
	}
	if step < s.WarmupSteps {
		return s.warmup(step)
	}
	return s.cosine(float64(step-s.WarmupSteps) / float64(s.TotalSteps-s.WarmupSteps))
}

// AtIteration is the rate of the ReferenceEpochs schedule at an iteration of an epoch.
func (s Schedule) AtIteration(epoch, iteration int64) float64 {
	if epoch > 0 {
		return s.cosine(float64(epoch) / float64(s.Epochs))
	}
	// Update k follows the optimiser's step of iteration k*WarmupStride, so iteration i has seen those below i.
	updates := int64(0)
	if iteration > 0 {
		updates = (iteration - 1) / s.WarmupStride
	}
	return s.warmup(updates)
}

func (s Schedule) warmup(k int64) float64 {
	if k >= s.WarmupSteps {
		return s.Rate
	}
	return s.WarmupRate + float64(k)*(s.Rate-s.WarmupRate)/float64(s.WarmupSteps)
}

func (s Schedule) cosine(progress float64) float64 {
	if progress >= 1 {
		return s.Min
	}
	return s.Min + 0.5*(s.Rate-s.Min)*(1+math.Cos(math.Pi*progress))
}
