package trainer

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// Trainer holds a model in training: weights, optimiser, the momentum encoder if there is one, and the number of steps
// done.
type Trainer struct {
	model      *model.Model
	worker     *torch.Worker
	vocabulary Vocabulary
	options    Options
	optimizer  *torch.AdamW
	momentum   *momentum // nil: off
	step       int64     // steps of the optimiser that are complete
	batches    int64     // batches of these
	open       openStep
	rate       float64 // learning rate of the open step
	runs       [][]int // of a share
	followed   bool    // the momentum encoder has followed the weights for the open step
}

// New takes over a model with trainable weights and a vocabulary; [Trainer.Free] frees it.
func New(ctx context.Context, m *model.Model, o Options) (*Trainer, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	v, err := VocabularyOf(m.Vocab)
	if err != nil {
		return nil, err
	}
	return newTrainer(ctx, m, v, o)
}

func newTrainer(ctx context.Context, m *model.Model, v Vocabulary, o Options) (*Trainer, error) {
	if o.MLMWeight > 0 && !m.HasMasked() {
		var l invalid.List
		l.Want(false, "%s is above 0 and the model has no head for masked words", invalid.Field("MLMWeight"))
		return nil, fmt.Errorf("preparing to train: %w", l.Err())
	}
	if o.ITC.Loss == Sigmoid {
		if err := m.AddBias(ctx); err != nil {
			return nil, fmt.Errorf("preparing to train: %w", err)
		}
	}
	t := &Trainer{model: m, worker: m.Worker(), vocabulary: v, options: o, runs: runsOf(m)}
	m.Calibration, m.Card = nil, "" // of the weights as they were
	m.SetTrainable(true)
	m.SetDropout(o.Dropout)
	var params []*torch.Tensor
	var decay []bool
	for _, p := range m.Params() {
		params = append(params, p.Tensor)
		decay = append(decay, decays(p.Name, len(p.Tensor.Shape())))
	}
	err := t.worker.Do(ctx, func(*torch.Scope) error {
		var err error
		t.optimizer, err = torch.NewAdamW(params, decay, torch.AdamWOptions{Beta1: o.AdamW.Beta1, Beta2: o.AdamW.Beta2, Eps: o.AdamW.Eps, WeightDecay: o.AdamW.WeightDecay})
		return err
	})
	if err == nil && o.Momentum.Enabled() {
		t.momentum, err = newMomentum(ctx, m, o.Momentum)
	}
	if err != nil {
		t.freeState()
		return nil, fmt.Errorf("preparing to train: %w", err)
	}
	return t, nil
}

// Model returns the model in training. Its weights change with every step.
func (t *Trainer) Model() *model.Model { return t.model }

// Steps returns the number of steps done.
func (t *Trainer) Steps() int64 { return t.step }

// Batches returns the number of batches in the steps done.
func (t *Trainer) Batches() int64 { return t.batches }

// Free frees all tensors, those of the model included.
func (t *Trainer) Free() {
	t.freeState()
	t.model.Free()
}

func (t *Trainer) freeState() {
	if t.optimizer != nil {
		t.optimizer.Free()
	}
	t.open.free()
	t.momentum.free()
}
