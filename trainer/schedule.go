package trainer

import (
	"cmp"
	"math"
	"strings"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// ScheduleKind names a learning-rate schedule.
type ScheduleKind string

const (
	// CosineSteps warms up linearly over WarmupSteps. It then follows half a cosine down to Min at TotalSteps, where it
	// stays. It is the schedule for a stream, which has steps but no epochs over a fixed data set.
	CosineSteps ScheduleKind = "cosine"
	// ReferenceEpochs is the schedule of the ALBEF, GRIT-VLP and MAFA pre-training drivers, see [Schedule].
	ReferenceEpochs ScheduleKind = "reference"
	// StreamSteps warms up like CosineSteps and stays at Rate while the stream flows. Half a cosine down to Min follows
	// when the stream's end is in sight, see [Decay].
	StreamSteps ScheduleKind = "stream"
)

// Schedule gives the learning rate of every step, counted from 0. It depends only on the step, so a restarted trainer
// needs no schedule state.
//
// ReferenceEpochs reproduces the authors' drivers, oddities included:
//
//   - The cosine is a function of the epoch alone. It spans Epochs epochs even when fewer are trained (30 and 20 in
//     GRIT-VLP, so that the rate ends at 3.67e-5).
//   - The "warm-up epochs" are WarmupSteps updates of the rate inside epoch 0. One follows every WarmupStride iterations,
//     after the optimiser's step, so the rate first changes at iteration WarmupStride+1.
//   - An epoch 0 shorter than the warm-up cuts it short.
type Schedule struct {
	Kind       ScheduleKind `env:"LR_SCHEDULE" envDefault:"cosine" desc:"cosine: warm-up and cosine over steps; stream: warm-up, then LR until every lane has come to the group that a final seal closes, and a cosine to LR_MIN over the batches that are left; reference: the papers' tables over epochs"`
	Rate       float64      `env:"LR" envDefault:"1e-4" desc:"highest learning rate"`                  // ALBEF, GRIT-VLP, MAFA: 1e-4 (retrieval fine-tuning 1e-5)
	Min        float64      `env:"LR_MIN" envDefault:"1e-5" desc:"learning rate at the end"`           // 1e-5 in the papers' configuration
	WarmupRate float64      `env:"LR_WARMUP" envDefault:"1e-5" desc:"learning rate of the first step"` // 1e-5 in the papers' configuration

	// WarmupSteps is the number of steps (CosineSteps) or of rate updates (ReferenceEpochs: 20) from WarmupRate to Rate.
	WarmupSteps int64 `env:"LR_WARMUP_STEPS" envDefault:"2000" desc:"steps of warm-up; updates of the rate with LR_SCHEDULE=reference, where the papers have 20"`
	TotalSteps  int64 `env:"LR_TOTAL_STEPS" envDefault:"1562490" desc:"step that reaches LR_MIN; later ones stay there. LR_SCHEDULE=reference goes down in 30 epochs of equal length. The recipe derives it from its epochs, PAIRS, BATCH_SIZE and STEP_BATCHES"`

	Epochs       int64 `envDefault:"30"`  // of the cosine of ReferenceEpochs
	EpochSteps   int64 `envDefault:"0"`   // of one of these epochs; 0: their share of TotalSteps
	WarmupStride int64 `envDefault:"100"` // iterations between two updates of the warm-up
}

// validate reports every setting that makes no schedule.
func (s Schedule) validate(l *invalid.List) {
	const rate, warmupSteps = invalid.Field("Schedule.Rate"), invalid.Field("Schedule.WarmupSteps")
	l.Want(s.Rate > 0, "%s is %g, want more than 0", rate, s.Rate)
	l.Want(s.Min >= 0 && s.Min <= s.Rate, "%s is %g, want 0..%g (%s)", invalid.Field("Schedule.Min"), s.Min, s.Rate, rate)
	l.Want(s.WarmupRate >= 0, "%s is %g, want 0 or more", invalid.Field("Schedule.WarmupRate"), s.WarmupRate)
	l.Want(s.WarmupSteps >= 0, "%s is %d, want 0 or more", warmupSteps, s.WarmupSteps)
	switch s.Kind {
	case CosineSteps:
		l.Want(s.TotalSteps > s.WarmupSteps, "%s is %d, want more than %s=%d", invalid.Field("Schedule.TotalSteps"), s.TotalSteps, warmupSteps, s.WarmupSteps)
	case StreamSteps:
	case ReferenceEpochs:
		invalid.AtLeast(l, "Schedule.Epochs", s.Epochs, 1)
		l.Want(s.epochSteps() >= 1, "%s is %d, want at least 1 for each of %d epochs", invalid.Field("Schedule.TotalSteps"), s.TotalSteps, s.Epochs)
		invalid.AtLeast(l, "Schedule.WarmupStride", s.WarmupStride, 1)
	default:
		l.Want(false, "%s is %q, want %q, %q or %q", invalid.Field("Schedule.Kind"), s.Kind, CosineSteps, ReferenceEpochs, StreamSteps)
	}
}

// Decay says how far the decay of StreamSteps has come with a batch: it is batch Batch, counted from 1, of Of. Of is 0
// before the decay.
type Decay struct{ Batch, Of int64 }

// During returns the rate that the optimiser uses at the given step, with a batch where the decay has come so far.
func (s Schedule) During(step int64, d Decay) float64 {
	rate := s.At(step)
	if s.Kind != StreamSteps || d.Of == 0 {
		return rate
	}
	return min(rate, s.cosine(float64(d.Batch)/float64(d.Of)))
}

// At returns the rate that the optimiser uses at the given step, before any decay of StreamSteps.
func (s Schedule) At(step int64) float64 {
	if s.Kind == ReferenceEpochs {
		return s.AtIteration(step/s.epochSteps(), step%s.epochSteps())
	}
	if step < s.WarmupSteps || s.Kind == StreamSteps {
		return s.warmup(step)
	}
	return s.cosine(float64(step-s.WarmupSteps) / float64(s.TotalSteps-s.WarmupSteps))
}

// epochSteps returns the steps of an epoch of ReferenceEpochs.
func (s Schedule) epochSteps() int64 { return cmp.Or(s.EpochSteps, s.TotalSteps/max(1, s.Epochs)) }

// AtIteration returns the rate of the ReferenceEpochs schedule at an iteration of an epoch.
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

// decays reports whether the weight decay applies to a parameter. It applies to all but those of exactly one dimension
// and those whose name ends in "bias". As in the authors' code, the temperature (no dimension), the class token, the
// position embeddings and all embedding tables decay.
func decays(name string, dims int) bool {
	return dims != 1 && !strings.HasSuffix(name, "bias")
}
