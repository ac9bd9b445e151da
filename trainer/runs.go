package trainer

import (
	"fmt"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/torch"
)

// The gradients of a share leave in runs of parameters. A run can leave while the last batch's backward pass still computes
// the runs behind it. The runs depend on the model alone, so all processes have the same.

const (
	mostRuns     = 16
	leastRunSize = 1 << 16 // values
)

// Give takes a run of a share: by the parameters of the run, the sums of this process's gradients; nil: none. It must not
// wait for other processes: a backward pass waits for it.
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

// lastBackward computes the gradients of the last batch that this process has of the step. It gives the share away, run by
// run, as soon as its gradients are final.
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
	for n := len(o.sums) - 1; n >= 0; n-- {
		grads := o.sums[n].grads
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
