package service

import (
	"log/slog"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/trainer"
)

// Planned says for which data the learning rate is planned: an epoch of Pairs takes Pairs / (BatchSize x StepBatches)
// steps. Other stages have the same sizes.
type Planned struct {
	Pairs     int64 `env:"PAIRS" envDefault:"0" desc:"pairs of an epoch over all lanes, from which RECIPE derives LR_TOTAL_STEPS and ITC_ALPHA_RAMP_STEPS; 0: LANES x GROUP_SIZE, as if every lane closed one full group"`
	GroupSize int64 `env:"GROUP_SIZE" envDefault:"5000000" desc:"distinct pairs of a lane that are indexed and clustered together"`
	BatchSize int64 `env:"BATCH_SIZE" envDefault:"96" desc:"N: pairs of a mini-batch"`
	Epochs    int64 `env:"EPOCHS" envDefault:"20" desc:"E: times that a group is trained on"`
}

func (p Planned) validate() error {
	var l invalid.List
	l.Refuse(p.Pairs < 0, "PAIRS is %d, want the pairs of an epoch, or 0", p.Pairs)
	return l.Err()
}

// plan is the data for which a learning rate was planned, as steps. A zero plan compares nothing.
type plan struct {
	pairs, steps int64 // of an epoch; of all epochs
	perPair      float64
	schedule     trainer.Schedule
}

// planOf returns the plan of a schedule that ends at a step. Other schedules follow the data by themselves.
func (p Planned) planOf(core trainer.Options, lanes int) plan {
	pairs := p.Pairs
	if pairs == 0 {
		pairs = int64(lanes) * p.GroupSize
	}
	if core.Schedule.Kind != trainer.CosineSteps || p.BatchSize < 1 {
		return plan{}
	}
	ofStep := p.BatchSize * int64(max(1, core.StepBatches))
	return plan{pairs, pairs / ofStep * p.Epochs, float64(p.Epochs) / float64(ofStep), core.Schedule}
}

// tell logs the plan of the learning rate at the start.
func (p plan) tell(logger *slog.Logger) {
	if p.steps > 0 {
		logger.Info("the learning rate is planned", keyStage, Name,
			keyPairs, p.pairs, keySteps, p.steps, keyRate, p.schedule.At(p.steps-1))
	}
}

// compare warns at the end when the data were others by more than a tenth.
func (p plan) compare(made int64, logger *slog.Logger) {
	if p.steps == 0 || made == 0 || 10*abs(made-p.steps) <= p.steps {
		return
	}
	logger.Warn("the learning rate was planned for other data: set PAIRS for the next run", keyStage, Name,
		keyPlanned, p.pairs, keySteps, p.steps, keyStep, made, keyPairs, int64(float64(made)/p.perPair),
		keyRate, p.schedule.At(made-1), keyWanted, p.schedule.At(p.steps-1))
}

func abs(n int64) int64 { return max(n, -n) }
