package torch_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// do runs fn on a fresh deterministic worker and checks that every handle came back.
func do(t *testing.T, fn func(*torch.Scope) error) error {
	t.Helper()
	before := torch.Live()
	w := must.Get(torch.NewWorker(torchtest.On(torch.WorkerOptions{Threads: 2, Deterministic: true})))(t)
	defer func() {
		w.Close()
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d handles were not given back", n)
		}
	}()
	return w.Do(context.Background(), fn)
}

func near(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tolerance) {
			t.Errorf("%s: value %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestOperations(t *testing.T) {
	tests := []struct {
		name  string
		run   func(*torch.Scope) *torch.Tensor
		shape []int64
		want  []float64
	}{
		{"add broadcasts", func(s *torch.Scope) *torch.Tensor {
			return s.Add(s.Float64s([]float64{1, 2, 3, 4}, 2, 2), s.Float64s([]float64{10, 20}, 2))
		}, []int64{2, 2}, []float64{11, 22, 13, 24}},
		{"linear", func(s *torch.Scope) *torch.Tensor {
			return s.Linear(s.Float64s([]float64{1, 2}, 1, 2), s.Float64s([]float64{1, 0, 1, 1, 0, 2}, 3, 2),
				s.Float64s([]float64{0, 0, 1}, 3))
		}, []int64{1, 3}, []float64{1, 3, 5}},
		{
			"gelu is exact", func(s *torch.Scope) *torch.Tensor { return s.GELU(s.Float64s([]float64{-1, 0, 2}, 3)) },
			[]int64{3},
			[]float64{-0.15865525393145707, 0, 1.9544997361036416},
		},
		{
			"quick gelu", func(s *torch.Scope) *torch.Tensor { return s.QuickGELU(s.Float64s([]float64{1}, 1)) },
			[]int64{1},
			[]float64{1 / (1 + math.Exp(-1.702))},
		},
		{"normalize", func(s *torch.Scope) *torch.Tensor {
			return s.Normalize(s.Float64s([]float64{3, 4, 0, 0}, 2, 2), 1, 1e-12)
		}, []int64{2, 2}, []float64{0.6, 0.8, 0, 0}},
		{"cross entropy leaves out ignored rows", func(s *torch.Scope) *torch.Tensor {
			return s.CrossEntropy(s.Float64s([]float64{0, 0, 5, 1}, 2, 2), s.Int64s([]int64{1, -100}, 2), -100)
		}, nil, []float64{math.Ln2}},
		{"masked fill and where", func(s *torch.Scope) *torch.Tensor {
			x := s.Float64s([]float64{1, 2, 3}, 3)
			mask := s.Gt(x, s.Full(1.5, torch.Float64))
			return s.Add(s.MaskedFill(x, mask, 0), s.Where(mask, x, s.Zeros(torch.Float64, 3)))
		}, []int64{3}, []float64{1, 2, 3}},
		{"gather, select, narrow, cat", func(s *torch.Scope) *torch.Tensor {
			x := s.Float64s([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
			return s.Cat(0, s.Reshape(s.Gather(x, 1, s.Int64s([]int64{2, 0}, 2, 1)), -1), s.Select(x, 0, 1),
				s.Reshape(s.Narrow(x, 1, 1, 1), -1))
		}, []int64{7}, []float64{3, 4, 4, 5, 6, 2, 5}},
		{"sums, means and triangles", func(s *torch.Scope) *torch.Tensor {
			x := s.Tril(s.Full(2, torch.Float64, 3, 3), 0)
			return s.Cat(0, s.Sum(x, 0, false), s.Mean(x, 1, false), s.Diagonal(x), s.Unsqueeze(s.SumAll(x), 0))
		}, []int64{10}, []float64{6, 4, 2, 2.0 / 3, 4.0 / 3, 2, 2, 2, 2, 12}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []float64
			var shape []int64
			must.Do(t, do(t, func(s *torch.Scope) error {
				r := test.run(s)
				got, shape = r.Float64s(), r.Shape()
				return nil
			}))
			if !slices.Equal(shape, test.shape) {
				t.Errorf("shape %v, want %v", shape, test.shape)
			}
			near(t, "result", got, test.want, 1e-12)
		})
	}
}

func TestAFailedOperationBecomesAnError(t *testing.T) {
	err := do(t, func(s *torch.Scope) error {
		if err := s.Nest(func(s *torch.Scope) error {
			s.MatMul(s.Zeros(torch.Float32, 2, 3), s.Zeros(torch.Float32, 2, 3))
			return nil
		}); err == nil {
			t.Error("the inner scope's failure got lost")
		}
		s.Add(s.Zeros(torch.Float32, 2), s.Zeros(torch.Float32, 3))
		t.Error("the failed operation returned")
		return nil
	})
	var failed *torch.Error
	if !errors.As(err, &failed) || failed.Op != "add" || !strings.Contains(failed.Reason, "must match") {
		t.Errorf("Do returned %v", err)
	}
}

func TestGradientOfALinearLayer(t *testing.T) {
	must.Do(t, do(t, func(s *torch.Scope) error {
		x := s.Float64s([]float64{1, 2, 3, 4}, 2, 2)
		w := s.Float64s([]float64{0.5, -1}, 1, 2)
		if s.Grad(w) != nil {
			t.Error("a gradient before any backward pass")
		}
		w.SetRequiresGrad(true)
		s.Backward(s.SumAll(s.Square(s.Linear(x, w, nil))))
		near(t, "gradient", s.Grad(w).Float64s(), []float64{2 * (-1.5 - 2.5*3), 2 * (-1.5*2 - 2.5*4)}, 1e-12)
		w.ZeroGrad()
		if s.Grad(w) != nil {
			t.Error("a gradient after ZeroGrad")
		}
		s.NoGrad(func() {
			if s.Linear(x, w, nil).RequiresGrad() {
				t.Error("NoGrad records")
			}
		})
		return nil
	}))
}
