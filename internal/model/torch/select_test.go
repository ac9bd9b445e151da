package torch_test

import (
	"slices"
	"testing"

	"github.com/x448/float16"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestSelection(t *testing.T) {
	tests := []struct {
		name  string
		run   func(*torch.Scope) *torch.Tensor
		shape []int64
		want  []float64
	}{
		{"max of rows", func(s *torch.Scope) *torch.Tensor {
			return s.Max(s.Float32s([]float32{1, 5, 2, -4, -6, -5}, 2, 3), 1)
		}, []int64{2}, []float64{5, -4}},
		{"max between others", func(s *torch.Scope) *torch.Tensor {
			return s.Max(s.Float32s([]float32{1, 2, 3, 4, 8, 7, 6, 5}, 2, 2, 2), 1)
		}, []int64{2, 2}, []float64{3, 4, 8, 7}},
		{"nonzero", func(s *torch.Scope) *torch.Tensor {
			return s.NonZero(s.Bools([]bool{false, true, true, false, false, true}, 2, 3))
		}, []int64{3, 2}, []float64{0, 1, 0, 2, 1, 2}},
		{"nonzero of nothing", func(s *torch.Scope) *torch.Tensor {
			return s.NonZero(s.Bools(make([]bool, 4), 2, 2))
		}, []int64{0, 2}, nil},
		{"index fill reaches through a view", func(s *torch.Scope) *torch.Tensor {
			x := s.Float32s([]float32{1, 2, 3, 4}, 2, 2)
			s.Reshape(x, -1).IndexFill(0, s.Int64s([]int64{1, 2, 1}, 3), -9)
			return x
		}, []int64{2, 2}, []float64{1, -9, -9, 4}},
		{"index add takes an index twice", func(s *torch.Scope) *torch.Tensor {
			x := s.Int64s([]int64{10, 20, 30, 40}, 2, 2)
			x.IndexAdd(0, s.Int64s([]int64{1, 0, 1}, 3), s.Int64s([]int64{1, 2, 3, 4, 5, 6}, 3, 2))
			return x
		}, []int64{2, 2}, []float64{13, 24, 36, 48}},
		{"float16 bits into float32", func(s *torch.Scope) *torch.Tensor {
			x := s.Zeros(torch.Float32, 3)
			s.Narrow(x, 0, 1, 2).SetFloat16s([]uint16{float16.Fromfloat32(0.5).Bits(), float16.Fromfloat32(-6e-8).Bits()})
			return x
		}, []int64{3}, []float64{0, 0.5, -0x1p-24}},
		{"float16 rounds", func(s *torch.Scope) *torch.Tensor {
			return s.To(s.Float32s([]float32{1 + 0x1p-11, 1 + 0x3p-11}, 2), torch.Float16)
		}, []int64{2}, []float64{1, 1 + 0x1p-9}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			must.Do(t, do(t, func(s *torch.Scope) error {
				x := tt.run(s)
				if got := x.Shape(); !slices.Equal(got, tt.shape) {
					t.Errorf("shape %v, want %v", got, tt.shape)
				}
				near(t, "values", x.Float64s(), tt.want, 0)
				return nil
			}))
		})
	}
	if name := torch.Float16.String(); name != "float16" {
		t.Errorf("float16 is called %q", name)
	}
}

func TestSelectionRefuses(t *testing.T) {
	for name, run := range map[string]func(*torch.Scope){
		"an index out of range": func(s *torch.Scope) {
			s.Zeros(torch.Float32, 2).IndexFill(0, s.Int64s([]int64{2}, 1), 0)
		},
		"values of another shape": func(s *torch.Scope) {
			s.Zeros(torch.Int64, 2, 2).IndexAdd(0, s.Int64s([]int64{0}, 1), s.Zeros(torch.Int64, 1, 3))
		},
		"bits of another number": func(s *torch.Scope) { s.Zeros(torch.Float32, 2).SetFloat16s(make([]uint16, 3)) },
	} {
		if name == "an index out of range" && torchtest.OnGPU() {
			continue // a kernel finds it there, and the process gets no more work done on that GPU
		}
		if err := do(t, func(s *torch.Scope) error { run(s); return nil }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
