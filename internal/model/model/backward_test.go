package model_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// The order lists every weight once. A backward pass is done with heads and fusion before it is with the encoders, with
// the texts before the images, and with the last layers first.
func TestBackwardOrder(t *testing.T) {
	w := worker(t)
	m := newModel(t, w, smallConfig(), 7)
	params, order := m.Params(), m.BackwardOrder()
	sorted := slices.Sorted(slices.Values(order))
	for i := range params {
		if len(sorted) != len(params) || sorted[i] != i {
			t.Fatalf("the order of %d weights is %v", len(params), order)
		}
	}
	batch, late := newBatch(smallConfig(), 6), 0
	must.Do(t, w.Do(t.Context(), func(s *torch.Scope) error {
		for _, p := range params {
			p.Tensor.SetRequiresGrad(true)
		}
		var runs [][]*torch.Tensor
		for _, i := range order {
			runs = append(runs, []*torch.Tensor{params[i].Tensor})
		}
		s.BackwardRuns(step(s, m, batch), runs, func(run int) {
			name := params[order[run]].Name
			for _, i := range order[run+1:] {
				if there := s.Grad(params[i].Tensor) != nil; there && layerOf(name) != layerOf(params[i].Name) {
					late++
				}
			}
		})
		return nil
	}))
	if pairs := len(params) * (len(params) - 1) / 2; late > pairs/20 {
		t.Errorf("of %d pairs of weights %d come in the other order", pairs, late)
	}
}

// layerOf returns the layer that a weight belongs to.
func layerOf(name string) string {
	parts := strings.Split(name, ".")
	return strings.Join(parts[:min(5, len(parts)-1)], ".")
}
