package torch_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// threeLayers makes a loss of three weights, of which the first is used twice. fourth is used in none.
func threeLayers(s *torch.Scope) (loss *torch.Tensor, weights []*torch.Tensor) {
	for k := range 4 {
		w := make([]float32, 16)
		for i := range w {
			w[i] = float32(math.Sin(float64(16*k + i)))
		}
		weights = append(weights, s.Float32s(w, 4, 4))
		weights[k].SetRequiresGrad(true)
	}
	x := s.Full(1, torch.Float32, 2, 4)
	for _, w := range []*torch.Tensor{weights[0], weights[1], weights[0], weights[2]} {
		x = s.Linear(s.GELU(x), w, nil)
	}
	return s.SumAll(s.Square(x)), weights
}

// A run is told of when its gradients are final: not before the last use of a weight, and before other gradients are
// there. A run without a gradient waits for those before it alone.
func TestRunsOfGradientsComeWhenTheyAreFinal(t *testing.T) {
	run(t, newWorker(t, 1), func(s *torch.Scope) {
		loss, w := threeLayers(s)
		s.Backward(loss)
		var want [][]float32
		for _, p := range w[:3] {
			want = append(want, s.Grad(p).Float32s())
			p.ZeroGrad()
		}
		loss, w = threeLayers(s)
		var told []int
		runs := [][]*torch.Tensor{{w[3]}, {w[2]}, {w[1], w[0]}, {w[3]}}
		s.BackwardRuns(loss, runs, func(run int) {
			told = append(told, run)
			if run == 1 && (s.Grad(w[0]) != nil || s.Grad(w[1]) != nil) {
				t.Error("the last layer's gradient comes behind those of others")
			}
			for k, p := range w[:3] {
				if slices.Contains(runs[run], p) && !slices.Equal(s.Grad(p).Float32s(), want[k]) {
					t.Errorf("the gradient of weight %d is not final in run %d", k, run)
				}
			}
		})
		if !slices.Equal(told, []int{0, 1, 2, 3}) || s.Grad(w[3]) != nil {
			t.Errorf("runs %v", told)
		}
		s.Backward(s.SumAll(w[2])) // nobody is told any more
		if len(told) != 4 {
			t.Errorf("runs %v", told)
		}
	})
}

// A failure of who is told comes out of the pass.
func TestFailuresInAPass(t *testing.T) {
	w := newWorker(t, 1)
	err := w.Do(t.Context(), func(s *torch.Scope) error {
		loss, weights := threeLayers(s)
		s.BackwardRuns(loss, [][]*torch.Tensor{weights}, func(int) { s.Add(weights[0], s.Zeros(torch.Float32, 3)) })
		return nil
	})
	if failed := (*torch.Error)(nil); !errors.As(err, &failed) || failed.Op != "add" {
		t.Errorf("%v", err)
	}
	err = w.Do(t.Context(), func(s *torch.Scope) error {
		_, weights := threeLayers(s)
		s.BackwardRuns(s.Zeros(torch.Float32, 1), [][]*torch.Tensor{weights}, func(int) {})
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "does not require grad") {
		t.Errorf("%v", err)
	}
}
