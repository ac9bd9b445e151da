package trainer

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// openStep holds the gradients and momentum keys of the batches of an incomplete step.
//
// Gradients are added along a binary tree over the step's batches: 0 and 1, 2 and 3, then both sums, and so on.
// Processes share the batches in runs of equal length, so the tree and the weights are the same for any number of
// processes. It takes one copy of the gradients for each level. A batch that was set aside has no leaf; its sibling
// takes the place of their sum.
type openStep struct {
	batches int // batches taken
	learned int // batches taken and not set aside
	sums    []partialSum
	keys    []batchKeys
	given   int // runs of the share that were given away
	// prepared has the keys that a gathered step compares with, by the batch's number; nil: not known here.
	prepared []*batchKeys
}

// partialSum is the sum of the gradients of some batches in a row.
type partialSum struct {
	batches int
	grads   []*torch.Tensor // by parameter; nil: none
}

// batchKeys are the keys of a batch. Those of the momentum encoder enter the queue when the step is complete.
type batchKeys struct {
	image, text *torch.Tensor // [N, E]; nil: every sample is masked
	ids         []schemas.ImageID
}

// add takes the gradients of the next batch, or nil for a batch that was set aside. It frees gradients that it has
// added to a sum.
func (o *openStep) add(grads []*torch.Tensor) {
	o.batches++
	if grads != nil {
		o.learned++
	}
	o.sums = append(o.sums, partialSum{1, grads})
	for n := len(o.sums); n > 1 && o.sums[n-1].batches == o.sums[n-2].batches; n = len(o.sums) {
		o.merge()
	}
}

// merge adds the last two sums, the earlier one first.
func (o *openStep) merge() {
	n := len(o.sums)
	left, right := o.sums[n-2], o.sums[n-1]
	sum := partialSum{batches: left.batches + right.batches, grads: left.grads}
	if left.grads == nil {
		sum.grads = right.grads
	}
	if left.grads != nil && right.grads != nil {
		addTo(left.grads, right.grads)
	}
	o.sums = append(o.sums[:n-2], sum)
}

// addTo adds gradients to others, in place, and takes them over. A parameter that has none on one side keeps that of
// the other.
func addTo(sums, grads []*torch.Tensor) {
	var into, from []*torch.Tensor
	for i, g := range grads {
		switch {
		case g == nil:
		case sums[i] == nil:
			sums[i] = g
		default:
			into, from = append(into, sums[i]), append(from, g)
		}
	}
	torch.AddAll(into, from)
	for _, g := range from {
		g.Free()
	}
}

func (k batchKeys) free() {
	k.image.Free()
	k.text.Free()
}

// free forgets everything.
func (o *openStep) free() {
	for _, sum := range o.sums {
		for _, g := range sum.grads {
			g.Free()
		}
	}
	for _, k := range o.keys {
		k.free()
	}
	for _, k := range o.prepared {
		if k != nil {
			k.free()
		}
	}
	*o = openStep{}
}

// takeGrads takes the gradients out of the parameters. In a step of one batch without a limit they stay there for the
// optimiser.
func (t *Trainer) takeGrads(s *torch.Scope) ([]*torch.Tensor, error) {
	if t.options.StepBatches == 1 && t.options.ClipNorm == 0 {
		return []*torch.Tensor{}, nil
	}
	params := t.model.Params()
	grads := make([]*torch.Tensor, len(params))
	for i, p := range params {
		if g := s.Grad(p.Tensor); g != nil {
			grads[i] = s.Keep(g)
		}
	}
	return grads, t.optimizer.ZeroGrad()
}

// complete ends the open step: the optimiser takes the mean of its gradients, and its keys enter the queue. A step
// whose batches were all set aside changes no weight.
func (t *Trainer) complete(s *torch.Scope, rate float64) error {
	o := &t.open
	for len(o.sums) > 1 {
		o.merge()
	}
	if o.learned > 0 {
		grads := o.sums[0].grads // none where the optimiser finds them itself
		scale := t.clip(s, grads, 1/float64(o.learned))
		var params, sums []*torch.Tensor
		for i, g := range grads {
			if g != nil {
				params, sums = append(params, t.model.Params()[i].Tensor), append(sums, g)
			}
		}
		torch.SetGrads(params, sums, scale)
		if err := t.optimizer.Step(rate); err != nil {
			return err
		}
	}
	for _, k := range o.keys {
		t.momentum.push(s, k)
	}
	t.step++
	t.batches += int64(o.batches)
	t.followed = false
	o.free()
	return nil
}

// clip returns the factor by which gradients are multiplied: scale, or less where their length would be above the
// limit. As in PyTorch's clip_grad_norm_ the length is that of all gradients together.
func (t *Trainer) clip(s *torch.Scope, grads []*torch.Tensor, scale float64) float64 {
	if t.options.ClipNorm == 0 {
		return scale
	}
	var squares *torch.Tensor
	s.NoGrad(func() {
		for _, g := range grads {
			if g == nil {
				continue
			}
			square := s.SumAll(s.Mul(g, g))
			if squares != nil {
				square = s.Add(squares, square)
			}
			squares = square
		}
	})
	if squares == nil {
		return scale
	}
	length := scale * math.Sqrt(squares.Item())
	return scale * min(1, t.options.ClipNorm/(length+1e-6))
}

// Finish ends a step that has too few batches, when no more come. It returns whether there was one.
func (t *Trainer) Finish(ctx context.Context) (bool, error) {
	if t.open.batches == 0 {
		return false, nil
	}
	err := t.worker.Do(ctx, func(s *torch.Scope) error { return t.complete(s, t.rate) })
	if err != nil {
		return true, fmt.Errorf("completing step %d with %d of %d batches: %w", t.step, t.open.batches, t.options.StepBatches, err)
	}
	return true, nil
}

// The gradients of a share leave in runs of parameters. A run can leave while the last batch's backward pass still
// computes the runs behind it. The runs depend on the model alone, so all processes have the same.

const (
	mostRuns     = 16
	leastRunSize = 1 << 16 // values
)

// Give takes a run of a share: by the parameters of the run, the sums of this process's gradients; nil: none. It must
// not wait for other processes: a backward pass waits for it.
type Give func(run int, grads [][]float32)

// runsOf cuts the parameters into runs of about one size, in the order in which a backward pass is done with them.
func runsOf(m *model.Model) (runs [][]int) {
	params := m.Params()
	total := int64(0)
	for _, p := range params {
		total += p.Tensor.Numel()
	}
	size := max(leastRunSize, (total+mostRuns-1)/mostRuns)
	filled := size // values of the open run
	for _, i := range m.BackwardOrder() {
		if filled >= size {
			runs, filled = append(runs, nil), 0
		}
		runs[len(runs)-1] = append(runs[len(runs)-1], i)
		filled += params[i].Tensor.Numel()
	}
	return runs
}

// Runs returns the runs of a share: of each, its parameters, as [Share] numbers them.
func (t *Trainer) Runs() [][]int { return t.runs }

// lastBackward computes the gradients of the last batch that this process has of the step. It gives the share away, run
// by run, as soon as its gradients are final.
func (t *Trainer) lastBackward(s *torch.Scope, total *torch.Tensor, give Give) error {
	params := t.model.Params()
	last := make([]*torch.Tensor, len(params))
	o := &t.open
	o.batches, o.learned, o.sums = o.batches+1, o.learned+1, append(o.sums, partialSum{1, last})
	runs := make([][]*torch.Tensor, len(t.runs))
	for run, of := range t.runs {
		for _, i := range of {
			runs[run] = append(runs[run], params[i].Tensor)
		}
	}
	var failed error
	s.BackwardRuns(total, runs, func(run int) {
		if failed != nil {
			return
		}
		for _, i := range t.runs[run] {
			if g := s.Grad(params[i].Tensor); g != nil {
				last[i] = s.Keep(g)
			}
		}
		failed = t.giveRun(s, run, give)
	})
	if failed != nil {
		return failed
	}
	return t.optimizer.ZeroGrad()
}

// giveRun gives a run of the share away.
func (t *Trainer) giveRun(s *torch.Scope, run int, give Give) error {
	sums := t.open.take(t.runs[run])
	for k, g := range sums {
		if g == nil {
			continue
		}
		defer g.Free()
		if g.DType() != torch.Float32 {
			return fmt.Errorf("the gradient of %s is %s, want %s", t.model.Params()[t.runs[run][k]].Name, g.DType(), torch.Float32)
		}
	}
	t.open.given = run + 1
	give(run, s.ReadAll(sums))
	return nil
}

// take takes some parameters out of the open step: the sums of all its batches, added along the tree.
func (o *openStep) take(params []int) []*torch.Tensor {
	sums := make([]*torch.Tensor, len(params))
	for _, sum := range slices.Backward(o.sums) {
		grads := sum.grads
		if len(grads) == 0 {
			continue // set aside
		}
		left := make([]*torch.Tensor, len(params))
		for k, i := range params {
			left[k], grads[i] = grads[i], nil
		}
		addTo(left, sums)
		sums = left
	}
	return sums
}
