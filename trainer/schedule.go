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
	Kind       ScheduleKind
	Rate       float64 // peak; ALBEF, GRIT-VLP, MAFA: 1e-4 (retrieval fine-tuning 1e-5)
	Min        float64 // end of the cosine; 1e-5 in the papers' configuration
	WarmupRate float64 // rate of the first step; 1e-5 in the papers' configuration

	// WarmupSteps is the number of steps (CosineSteps) or of rate updates (ReferenceEpochs: 20) from WarmupRate to Rate.
	WarmupSteps int64
	TotalSteps  int64 // CosineSteps: the step at which the rate has reached Min

	Epochs       int64 // ReferenceEpochs: length of the cosine; 30 in the papers' configuration
	EpochSteps   int64 // ReferenceEpochs: steps that make one epoch
	WarmupStride int64 // ReferenceEpochs: iterations between two updates; 100 in the papers' code
}

// Validate reports every setting that makes no schedule.
func (s Schedule) Validate() []error {
	var errs []error
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(s.Rate > 0, "schedule: Rate %g, want more than 0", s.Rate)
	bad(s.Min >= 0 && s.Min <= s.Rate, "schedule: Min %g, want 0..%g (Rate)", s.Min, s.Rate)
	bad(s.WarmupRate >= 0, "schedule: WarmupRate %g is negative", s.WarmupRate)
	bad(s.WarmupSteps >= 0, "schedule: WarmupSteps %d is negative", s.WarmupSteps)
	switch s.Kind {
	case CosineSteps:
		bad(s.TotalSteps > s.WarmupSteps, "schedule: TotalSteps %d, want more than WarmupSteps %d", s.TotalSteps, s.WarmupSteps)
	case ReferenceEpochs:
		bad(s.Epochs > 0, "schedule: Epochs %d, want at least 1", s.Epochs)
		bad(s.EpochSteps > 0, "schedule: EpochSteps %d, want at least 1", s.EpochSteps)
		bad(s.WarmupStride > 0, "schedule: WarmupStride %d, want at least 1", s.WarmupStride)
	default:
		bad(false, "schedule: Kind %q, want %q or %q", s.Kind, CosineSteps, ReferenceEpochs)
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
