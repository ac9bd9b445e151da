package trainer

import (
	"context"
	"fmt"
	"io"

	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// Several processes, the ranks, train one model. Each begins with the same state ([Trainer.Write], [Read]) and learns
// from a run of the batches of every step ([Trainer.Learn]). Somebody adds up their shares, along the tree of
// [openStep], and all complete the step with the sum. Then they hold the same bits again: those of one process that
// learns from all.

// Share is a process's part of an open step, or the sum of all parts.
type Share struct {
	Batches, Learned int         // batches taken, and those of them that were not set aside
	Grads            [][]float32 // of the sum, by parameter; nil: none
	Keys             []Keys      // of the momentum queue, in the order of batches
}

// Keys are the momentum keys of a batch, row by row.
type Keys struct {
	Image, Text []float32
	IDs         []schemas.ImageID
}

// Learn adds a batch to the open step and completes nothing. number is the batch's number in the step, over all
// processes. Learn uses up an input that was sent. For the process's last batch of the step, give receives runs of the
// share while Learn computes them; otherwise it is nil. [Trainer.TakeShare] gives the remaining runs.
func (t *Trainer) Learn(ctx context.Context, b *schemas.ScoredBatch, in Input, number int, give Give) (*Result, error) {
	return t.stepOn(ctx, b, in, stepSlot{number, give}, func(*torch.Scope, *Result) error { return nil })
}

// TakeShare removes this process's share from the open step. give gets the runs of gradients that [Trainer.Learn] has
// not given.
func (t *Trainer) TakeShare(ctx context.Context, give Give) (Share, error) {
	var share Share
	err := t.worker.Do(ctx, func(s *torch.Scope) error {
		o := &t.open
		defer o.free()
		share.Batches, share.Learned = o.batches, o.learned
		for run := o.given; run < len(t.runs); run++ {
			if err := t.giveRun(s, run, give); err != nil {
				return err
			}
		}
		for _, k := range o.keys {
			share.Keys = append(share.Keys, Keys{k.image.Float32s(), k.text.Float32s(), k.ids})
		}
		return nil
	})
	if err != nil {
		return Share{}, fmt.Errorf("taking the share of step %d: %w", t.step, err)
	}
	return share, nil
}

// Complete completes the open step with the sum of all shares, at a learning rate.
func (t *Trainer) Complete(ctx context.Context, sum Share, rate float64) error {
	params := t.model.Params()
	if len(sum.Grads) != len(params) {
		return fmt.Errorf("completing step %d: gradients of %d parameters, want %d", t.step, len(sum.Grads), len(params))
	}
	err := t.worker.Do(ctx, func(s *torch.Scope) error {
		// A process without a batch in a short step has done neither yet.
		t.follow()
		if err := t.optimizer.ZeroGrad(); err != nil {
			return err
		}
		shapes := make([][]int64, len(params))
		for i, g := range sum.Grads {
			if shapes[i] = params[i].Tensor.Shape(); g != nil && int64(len(g)) != params[i].Tensor.Numel() {
				return fmt.Errorf("the gradient of %s has %d values, want %d", params[i].Name, len(g), params[i].Tensor.Numel())
			}
		}
		total := partialSum{batches: sum.Batches, grads: s.MakeAll(sum.Grads, shapes)}
		for _, g := range total.grads {
			if g != nil {
				s.Keep(g)
			}
		}
		t.open.free()
		t.open = openStep{batches: sum.Batches, learned: sum.Learned, sums: []partialSum{total}}
		if len(sum.Keys) > 0 && t.momentum == nil {
			return fmt.Errorf("momentum keys of %d batches, want none without a momentum encoder", len(sum.Keys))
		}
		for _, k := range sum.Keys {
			kept, err := t.keysOf(s, k)
			if err != nil {
				return fmt.Errorf("momentum %w", err)
			}
			t.open.keys = append(t.open.keys, kept)
		}
		return t.complete(s, rate)
	})
	if err != nil {
		return fmt.Errorf("completing step %d: %w", t.step, err)
	}
	return nil
}

// Drop forgets the batches of the open step, which come again. The state is that behind the last whole step.
func (t *Trainer) Drop(ctx context.Context) error {
	err := t.worker.Do(ctx, func(*torch.Scope) error {
		t.open.free()
		return t.optimizer.ZeroGrad()
	})
	if err != nil {
		return fmt.Errorf("dropping the open step %d: %w", t.step, err)
	}
	return nil
}

func (t *Trainer) keysOf(s *torch.Scope, k Keys) (batchKeys, error) {
	rows, width := len(k.IDs), t.model.Config.EmbedDim
	if len(k.Image) != rows*width || len(k.Text) != rows*width {
		return batchKeys{}, fmt.Errorf("keys of %d and %d values for %d images, want %d each", len(k.Image), len(k.Text), rows, rows*width)
	}
	if rows == 0 {
		return batchKeys{}, nil
	}
	dtype := t.model.Params()[0].Tensor.DType()
	tensor := func(values []float32) *torch.Tensor {
		return s.Keep(s.To(s.Float32s(values, int64(rows), int64(width)), dtype))
	}
	return batchKeys{image: tensor(k.Image), text: tensor(k.Text), ids: k.IDs}, nil
}

// Write writes the whole state, for [Read] in another process.
func (t *Trainer) Write(ctx context.Context, w io.Writer) error {
	tensors, metadata, err := t.whole(ctx)
	if err == nil {
		err = safetensors.Write(w, tensors, metadata)
	}
	if err != nil {
		return fmt.Errorf("writing the state at step %d: %w", t.step, err)
	}
	return nil
}

// Read makes a trainer from what [Trainer.Write] wrote.
func Read(ctx context.Context, w *torch.Worker, data []byte, o Options) (*Trainer, error) {
	f, err := safetensors.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading the state of a trainer: %w", err)
	}
	t, err := resume(ctx, w, f, o)
	if err != nil {
		return nil, fmt.Errorf("reading the state of a trainer: %w", err)
	}
	return t, nil
}
