package torch_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// ramp returns some values of both signs, none too large.
func ramp(n int) []float32 {
	r := rng.New(1, "torch test", int64(n))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

// kernel is one of this package's own operations for float32 on the CPU, on inputs of the given shapes. The test
// computes it in float64 with libtorch's own operations.
type kernel struct {
	name   string
	shapes [][]int64
	run    func(s *torch.Scope, in []*torch.Tensor) *torch.Tensor
}

func kernels() []kernel {
	var all []kernel
	for _, sizes := range [][3]int64{{1, 1, 1}, {3, 7, 5}, {300, 33, 130}, {129, 64, 64}} {
		rows, in, out := sizes[0], sizes[1], sizes[2]
		all = append(all,
			kernel{
				fmt.Sprint("linear ", sizes),
				[][]int64{{rows, in}, {out, in}, {out}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor { return s.Linear(x[0], x[1], x[2]) },
			},
			kernel{
				fmt.Sprint("linear without bias ", sizes),
				[][]int64{{2, rows, in}, {out, in}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor { return s.Linear(x[0], x[1], nil) },
			},
			kernel{
				fmt.Sprint("two and three layers ", sizes),
				[][]int64{{rows, in}, {out, in}, {3, in}, {out + 1, in}, {out}, {3}, {out + 1}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor {
					two := s.Linears(x[0], x[1:3], x[4:6])
					three := s.Linears(x[0], x[1:4], x[4:7])
					return s.Cat(1, two, three)
				},
			},
			kernel{
				fmt.Sprint("gelu ", sizes),
				[][]int64{{rows, in, 3}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor { return s.GELU(s.MulScalar(x[0], 3)) },
			},
			kernel{
				fmt.Sprint("layer norm ", sizes),
				[][]int64{{rows, in + 4}, {in + 4}, {in + 4}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor { return s.LayerNorm(x[0], x[1], x[2], 1e-3) },
			},
			kernel{
				fmt.Sprint("layer norm of a sum ", sizes),
				[][]int64{{2, rows, in + 4}, {2, rows, in + 4}, {in + 4}, {in + 4}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor {
					// The terms are used again, so that their gradients have more than one source.
					y := s.AddLayerNorm(x[0], x[1], x[2], x[3], 1e-3)
					return s.Add(y, s.AddLayerNorm(s.Square(x[0]), x[0], x[2], x[3], 1e-3))
				},
			},
			kernel{
				fmt.Sprint("quick gelu ", sizes),
				[][]int64{{rows, in, 3}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor { return s.QuickGELU(s.MulScalar(x[0], 3)) },
			},
		)
	}
	for _, sizes := range [][4]int64{{1, 1, 1, 1}, {3, 5, 2, 7}, {2, 17, 3, 8}, {2, 40, 4, 16}} {
		batch, length, heads, width := sizes[0], sizes[1], sizes[2], sizes[3]
		all = append(all,
			kernel{
				fmt.Sprint("self-attention ", sizes),
				[][]int64{{batch, length, 3 * heads * width}, {batch, 1, length}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor {
					return s.SelfAttention(x[0], s.Detach(x[1]), int(heads), 0.5, 0)
				},
			},
			kernel{
				fmt.Sprint("causal self-attention ", sizes),
				[][]int64{{batch, length, 3 * heads * width}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor {
					later := s.EqScalar(s.Tril(s.Full(1, x[0].DType(), length, length), 0), 0)
					mask := s.MaskedFill(s.Zeros(x[0].DType(), length, length), later, math.Inf(-1))
					return s.SelfAttention(x[0], s.Unsqueeze(mask, 0), int(heads), 0.5, 0)
				},
			},
			kernel{
				fmt.Sprint("cross-attention ", sizes),
				[][]int64{{batch, 3, heads * width}, {batch, length, 2 * heads * width}},
				func(s *torch.Scope, x []*torch.Tensor) *torch.Tensor {
					return s.CrossAttention(x[0], x[1], nil, int(heads), 0.5, 0)
				},
			},
		)
	}
	return all
}

// result returns an operation's output and the gradients of its inputs, under a loss that weighs the outputs
// differently.
func (k kernel) result(s *torch.Scope, dtype torch.DType) (out [][]float64) {
	var in []*torch.Tensor
	for i, shape := range k.shapes {
		n := int64(1)
		for _, d := range shape {
			n *= d
		}
		x := s.To(s.Float32s(ramp(int(n) + i)[i:], shape...), dtype)
		x.SetRequiresGrad(true)
		in = append(in, x)
	}
	y := k.run(s, in)
	weights := s.To(s.Float32s(ramp(int(y.Numel())), y.Shape()...), dtype)
	s.Backward(s.SumAll(s.Mul(y, weights)))
	out = append(out, y.Float64s())
	for _, x := range in {
		if g := s.Grad(x); g != nil {
			out = append(out, g.Float64s())
		}
	}
	return out
}

func TestKernelsAgreeWithLibtorch(t *testing.T) {
	for name, w := range multiplied(t, torch.WorkerOptions{Threads: 2, Deterministic: true}) {
		for _, k := range kernels() {
			t.Run(name+" "+k.name, func(t *testing.T) {
				var want, got [][]float64
				must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
					want, got = k.result(s, torch.Float64), k.result(s, torch.Float32)
					return nil
				}))
				if len(want) != len(got) {
					t.Fatalf("%d gradients, want %d", len(got)-1, len(want)-1)
				}
				for i := range want {
					near(t, fmt.Sprintf("result %d", i), got[i], want[i], 2e-6*max(1e-3, largest(want[i])))
				}
			})
		}
	}
}

func largest(values []float64) float64 {
	most := 0.0
	for _, v := range values {
		most = max(most, math.Abs(v))
	}
	return most
}

func TestKernelsDoNotDependOnTheThreads(t *testing.T) {
	results := map[string][][]float64{}
	for _, threads := range []int{1, 2, 5} {
		w := newWorker(t, threads)
		for _, k := range kernels() {
			var got [][]float64
			must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
				got = k.result(s, torch.Float32)
				return nil
			}))
			if want, ok := results[k.name]; ok && !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s has other bits with %d threads", k.name, threads)
			}
			results[k.name] = got
		}
	}
}

// Activations and softmax must handle these values.
func TestExtremes(t *testing.T) {
	inf := float32(math.Inf(1))
	must.Do(t, do(t, func(s *torch.Scope) error {
		x := s.Float32s([]float32{-1e30, -200, -20, 0, 20, 200, 1e30}, 7)
		near(t, "gelu", s.GELU(x).Float64s(), []float64{0, 0, 0, 0, 20, 200, 1e30}, 1e-30+1e24)
		small := s.GELU(s.Float32s([]float32{-1e30, -200, -20, 0, 20}, 5)).Float64s()
		near(t, "gelu", small, []float64{0, 0, 0, 0, 20}, 1e-6)
		quick := s.QuickGELU(s.Float32s([]float32{-1e30, -200, -20, 0, 20}, 5)).Float64s()
		near(t, "quick gelu", quick, []float64{0, 0, 0, 0, 20}, 1e-6)
		qkv := s.Float32s([]float32{100, 1, 3, 100, -1, 5, 100, 0.5, 7}, 1, 3, 3)
		mask := s.Float32s([]float32{0, -10000, -inf}, 1, 1, 3)
		near(t, "masked attention", s.SelfAttention(qkv, mask, 1, 1, 0).Float64s(), []float64{3, 3, 3}, 0)
		return nil
	}))
}
