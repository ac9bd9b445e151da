package torch_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// halved returns the options of a worker of precision BFloat16.
func halved(threads int) torch.WorkerOptions {
	return torch.WorkerOptions{Threads: threads, Deterministic: true, Precision: torch.BFloat16}
}

// multiplied returns workers of every multiplier that is there, and one with libtorch's operations alone.
func multiplied(t *testing.T, o torch.WorkerOptions) map[string]*torch.Worker {
	t.Helper()
	all := map[string]*torch.Worker{}
	for _, name := range []string{"oneDNN", "BLAS", "libtorch", "portable"} {
		o := o
		if o.Portable = name == "portable"; !o.Portable {
			o.Multiplier = name
		}
		w, err := torch.NewWorker(o)
		if err != nil {
			t.Logf("not tested: %v", err)
			continue
		}
		t.Cleanup(w.Close)
		all[name] = w
	}
	return all
}

func workerOf(t testing.TB, o torch.WorkerOptions) *torch.Worker {
	t.Helper()
	w := must.Get(torch.NewWorker(o))(t)
	t.Cleanup(w.Close)
	return w
}

func run(t testing.TB, w *torch.Worker, fn func(s *torch.Scope)) {
	t.Helper()
	must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
		fn(s)
		return nil
	}))
}

// A bfloat16 has 8 bits, so a factor is off by at most 1/512 of itself. For sums of random signs the error is about
// that share of the largest, over a few products one behind the other.
func TestKernelsInMixedPrecision(t *testing.T) {
	for name, w := range multiplied(t, halved(2)) {
		t.Run(name, func(t *testing.T) {
			for _, k := range kernels() {
				var want, got [][]float64
				run(t, w, func(s *torch.Scope) { want, got = k.result(s, torch.Float64), k.result(s, torch.Float32) })
				if len(want) != len(got) {
					t.Fatalf("%s: %d gradients, want %d", k.name, len(got)-1, len(want)-1)
				}
				for i := range want {
					near(t, fmt.Sprintf("%s, result %d", k.name, i), got[i], want[i], 0.025*max(1, largest(want[i])))
				}
			}
		})
	}
}

func TestMixedPrecisionDoesNotDependOnTheThreads(t *testing.T) {
	results := map[string][][]float64{}
	for _, threads := range []int{1, 2, 5} {
		w := torchtest.NewWorker(t, halved(threads))
		for _, k := range kernels() {
			var got [][]float64
			run(t, w, func(s *torch.Scope) { got = k.result(s, torch.Float32) })
			if want, ok := results[k.name]; ok && !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s has other bits with %d threads", k.name, threads)
			}
			results[k.name] = got
		}
	}
}

// Factors that bfloat16 holds exactly give products as exact as float32's, forward and backward. Only the factors are
// rounded where the CPU's own kernels multiply.
func TestMixedPrecisionRoundsOnlyFactors(t *testing.T) {
	if !torchtest.OnCPU() {
		t.Skip("libtorch's own operations round results, too")
	}
	results := func(w *torch.Worker) (all [][]float64) {
		run(t, w, func(s *torch.Scope) {
			integers := func(shift, n int, shape ...int64) *torch.Tensor {
				values := make([]float32, n)
				for i := range values {
					values[i] = float32((i*i+shift)%23 - 11)
				}
				x := s.Float32s(values, shape...)
				x.SetRequiresGrad(true)
				return x
			}
			x, w0, w1 := integers(0, 40*33, 40, 33), integers(1, 7*33, 7, 33), integers(2, 5*33, 5, 33)
			b0 := s.Float32s([]float32{1001, -777, 2, 3, 4, 5, 6}, 7) // 1001 is no bfloat16
			b0.SetRequiresGrad(true)
			y := s.Linears(x, []*torch.Tensor{w0, w1}, []*torch.Tensor{b0, integers(3, 5, 5)})
			s.Backward(s.SumAll(s.Mul(y, s.Detach(integers(4, 40*12, 40, 12)))))
			for _, r := range []*torch.Tensor{y, s.Grad(x), s.Grad(w0), s.Grad(w1), s.Grad(b0)} {
				if r.DType() != torch.Float32 {
					t.Errorf("a result of %s", r.DType())
				}
				all = append(all, r.Float64s())
			}
		})
		return all
	}
	if got, want := results(torchtest.NewWorker(t, halved(2))), results(newWorker(t, 2)); !slices.EqualFunc(got, want, slices.Equal) {
		t.Error("small integers have other products than in float32")
	}
}

// A weight that was rounded before has the products of one that is rounded when it is used, in the last bit.
func TestAWeightMayBeRoundedBefore(t *testing.T) {
	for way, o := range torchtest.Ways(halved(2)) {
		run(t, workerOf(t, o), func(s *torch.Scope) {
			x, w, bias := s.Float32s(ramp(4*10*33), 4, 10, 33), s.Float32s(ramp(7*33), 7, 33), s.Float32s(ramp(7), 7)
			s.NoGrad(func() {
				rounded := s.To(w, torch.BFloat16)
				want := s.Linears(x, []*torch.Tensor{w, w}, []*torch.Tensor{bias, bias}).Float64s()
				got := s.Linears(x, []*torch.Tensor{rounded, w}, []*torch.Tensor{bias, bias}).Float64s()
				if !slices.Equal(got, want) {
					t.Errorf("%s: a weight that was rounded before has other products", way)
				}
				if got := s.Linear(x, s.Narrow(rounded, 0, 2, 3), nil).Float64s(); !slices.Equal(got, s.Linear(x, s.Narrow(w, 0, 2, 3), nil).Float64s()) {
					t.Errorf("%s: some rows of a weight that was rounded before have other products", way)
				}
			})
		})
	}
}

// A weight has the same products, and the same gradients, whether it lies in memory by rows or by columns. So do some
// of its rows. The sums of small integers are exact in any order.
func TestAWeightMayLieByColumns(t *testing.T) {
	integers := func(s *torch.Scope, shift, n int, shape ...int64) *torch.Tensor {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32((i*i+shift)%23 - 11)
		}
		return s.Float32s(values, shape...)
	}
	results := func(s *torch.Scope, byColumns, gradients bool) (all [][]float64) {
		x, bias := integers(s, 0, 40*33, 4, 10, 33), integers(s, 3, 7, 7)
		w := integers(s, 1, 7*33, 7, 33)
		if byColumns {
			w = s.Transpose(s.Contiguous(s.Transpose(w, 0, 1)), 0, 1)
		}
		if !gradients {
			s.NoGrad(func() {
				all = append(all, s.Linear(x, w, bias).Float64s(),
					s.Linears(x, []*torch.Tensor{s.Narrow(w, 0, 2, 3), w}, []*torch.Tensor{s.Narrow(bias, 0, 2, 3), bias}).Float64s())
			})
			return all
		}
		x.SetRequiresGrad(true)
		w.SetRequiresGrad(true)
		y := s.Linear(x, w, bias)
		s.Backward(s.SumAll(s.Mul(y, integers(s, 4, 40*7, 4, 10, 7))))
		return append(all, y.Float64s(), s.Grad(x).Float64s(), s.Grad(w).Float64s())
	}
	for _, precision := range []torch.DType{torch.Float32, torch.BFloat16} {
		for way, o := range torchtest.Ways(torch.WorkerOptions{Threads: 2, Precision: precision}) {
			for _, gradients := range []bool{false, true} {
				var rows, columns [][]float64
				run(t, workerOf(t, o), func(s *torch.Scope) {
					rows, columns = results(s, false, gradients), results(s, true, gradients)
				})
				if len(rows) < 2 || !slices.EqualFunc(rows, columns, slices.Equal) {
					t.Errorf("%s, %s, gradients %v: a weight by columns has other products", way, precision, gradients)
				}
			}
		}
	}
}

func TestRoundingIsToTheNearest(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	values := []float32{
		0, 1, -1, 1 + 1.0/256, 1 + 3.0/256, 1 + 1.0/256 + 1e-6, -(1 + 1.0/256), 3.3895314e38, math.MaxFloat32, inf, -inf,
		nan, math.Float32frombits(0x7FFFFFFF), math.Float32frombits(0xFF800001),
	}
	values = append(values, ramp(1000)...)
	for _, o := range torchtest.Ways(halved(2)) {
		run(t, workerOf(t, o), func(s *torch.Scope) {
			n := int64(len(values))
			got := s.Linear(s.Float32s(values, n, 1), s.Full(1, torch.Float32, 1, 1), nil).Float32s()
			want := s.To(s.Float32s(values, n), torch.BFloat16).Float32s()
			for i := range want {
				if got[i] != want[i] && !(got[i] != got[i] && want[i] != want[i]) {
					t.Errorf("%v became %v, want %v", values[i], got[i], want[i])
				}
			}
		})
	}
}

// Some operations must not compute in bfloat16. They do not, even where results of linear layers stay bfloat16. On a
// CPU without units for bfloat16 these are float32 as well.
func TestWhatStaysFloat32(t *testing.T) {
	for way, o := range torchtest.Ways(halved(1)) {
		t.Run(way, func(t *testing.T) { staysFloat32(t, workerOf(t, o), way == "device" && torchtest.OnGPU()) })
	}
}

func staysFloat32(t *testing.T, w *torch.Worker, gpu bool) {
	t.Helper()
	run(t, w, func(s *torch.Scope) {
		x, w := s.Float32s(ramp(12), 3, 4), s.Float32s(ramp(16), 4, 4)
		w.SetRequiresGrad(true)
		y := s.Linear(x, w, nil)
		narrow := y.DType()
		if narrow != torch.BFloat16 && (narrow != torch.Float32 || gpu) {
			t.Fatalf("a linear layer gives %s", narrow)
		}
		weight, bias := s.Full(1, torch.Float32, 4), s.Zeros(torch.Float32, 4)
		for name, got := range map[string]*torch.Tensor{
			"softmax": s.Softmax(y, 1), "log softmax": s.LogSoftmax(y, 1), "normalize": s.Normalize(y, 1, 1e-6),
			"layer norm": s.LayerNorm(y, weight, bias, 1e-6), "layer norm of a sum": s.AddLayerNorm(y, y, weight, bias, 1e-6),
			"cross-entropy": s.CrossEntropy(y, s.Int64s([]int64{1, 2, 3}, 3), -100), "residual": s.Add(x, y),
		} {
			if got.DType() != torch.Float32 {
				t.Errorf("%s gives %s", name, got.DType())
			}
		}
		if got := s.SelfAttention(s.Reshape(s.Cat(1, y, y, y), 1, 3, 12), nil, 2, 1, 0).DType(); got != narrow {
			t.Errorf("attention gives %s", got)
		}
		s.Backward(s.SumAll(s.Square(s.GELU(y))))
		if got := s.Grad(w).DType(); got != torch.Float32 {
			t.Errorf("the gradient of a weight is %s", got)
		}
		s.InFloat32(func() {
			if got := s.Linear(y, w, nil).DType(); got != torch.Float32 {
				t.Errorf("a linear layer in float32 gives %s", got)
			}
		})
	})
}

// Every worker has its own precision, and an exception ends with its function.
func TestPrecisionIsTheWorkers(t *testing.T) {
	product := func(s *torch.Scope) []float32 {
		return s.Linear(s.Float32s(ramp(300), 20, 15), s.Float32s(ramp(60), 4, 15), nil).Float32s()
	}
	of := func(w *torch.Worker, inFloat32 bool) (values []float32) {
		run(t, w, func(s *torch.Scope) {
			if inFloat32 {
				s.InFloat32(func() { values = product(s) })
			} else {
				values = product(s)
			}
		})
		return values
	}
	full, mixed := newWorker(t, 2), torchtest.NewWorker(t, halved(2))
	want := of(full, false)
	rounded := of(mixed, false)
	if slices.Equal(rounded, want) {
		t.Error("mixed precision gives the bits of float32")
	}
	for name, c := range map[string]struct {
		w         *torch.Worker
		inFloat32 bool
		want      []float32
	}{
		"float32 beside mixed": {full, false, want}, "mixed, in float32": {mixed, true, want}, "mixed, after that": {mixed, false, rounded},
	} {
		if got := of(c.w, c.inFloat32); !slices.Equal(got, c.want) {
			t.Errorf("%s: other bits", name)
		}
	}
	if full.Precision() != torch.Float32 || mixed.Precision() != torch.BFloat16 {
		t.Errorf("precisions %s and %s", full.Precision(), mixed.Precision())
	}
	_, err := torch.NewWorker(torch.WorkerOptions{Precision: torch.Int64})
	if err == nil || !strings.Contains(err.Error(), "products of int64, want float32 or bfloat16") {
		t.Errorf("error %v", err)
	}
}
