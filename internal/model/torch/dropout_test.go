package torch_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// ones passes n ones through dropout after a seed and some earlier draws, and returns what came out and the gradient.
func ones(t *testing.T, threads int, n int64, p float64, seed uint64, earlier int) (out, grad []float32) {
	t.Helper()
	w := newWorker(t, threads)
	must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
		x := s.Full(1, torch.Float32, n)
		x.SetRequiresGrad(true)
		s.Seed(seed)
		for range earlier {
			s.Dropout(x, p)
		}
		y := s.Dropout(x, p)
		s.Backward(s.SumAll(y))
		out, grad = y.Float32s(), s.Grad(x).Float32s()
		return nil
	}))
	return out, grad
}

func TestDropoutDropsItsShare(t *testing.T) {
	const n = 1 << 20
	for _, p := range []float64{0, 0.1, 0.5, 0.9} {
		out, grad := ones(t, 2, n, p, 7, 0)
		dropped, afterDropped := 0, 0
		for i, v := range out {
			switch {
			case v == 0:
				dropped++
				if i > 0 && out[i-1] == 0 {
					afterDropped++
				}
			case math.Abs(float64(v)-1/(1-p)) > 1e-6/(1-p):
				t.Fatalf("dropout of %g makes %v of 1, want %v", p, v, 1/(1-p))
			}
		}
		// The bounds are six deviations of a binomial distribution. The second is for neighbours that are dropped
		// together.
		for what, count := range map[string][2]float64{
			"elements":                     {float64(dropped), p},
			"elements after a dropped one": {float64(afterDropped), p * p},
		} {
			if got, want := count[0], count[1]*n; math.Abs(got-want) > 6*math.Sqrt(want*(1-count[1])*(1+2*p))+1 {
				t.Errorf("dropout of %g drops %v of %d %s, want about %v", p, got, n, what, want)
			}
		}
		if !slices.Equal(out, grad) {
			t.Errorf("dropout of %g drops other gradients than values", p)
		}
	}
}

func TestDropoutIsAFunctionOfSeedAndDraw(t *testing.T) {
	const n, p = 100_003, 0.3
	want, _ := ones(t, 1, n, p, 7, 0)
	if got, _ := ones(t, 2, n, p, 7, 0); !slices.Equal(got, want) {
		t.Error("two threads drop other elements than one")
	}
	for what, other := range map[string]func() []float32{
		"another seed": func() []float32 { out, _ := ones(t, 1, n, p, 8, 0); return out },
		"a later draw": func() []float32 { out, _ := ones(t, 1, n, p, 7, 1); return out },
	} {
		same := 0
		for i, v := range other() {
			if v == want[i] {
				same++
			}
		}
		if share, chance := float64(same)/n, p*p+(1-p)*(1-p); math.Abs(share-chance) > 0.01 {
			t.Errorf("%s agrees in %.3f of the elements, want %.3f by chance", what, share, chance)
		}
	}
}

// With unit vectors as values, attention shows the probabilities that it used. The gradients equal those of the same
// computation in libtorch's operations, with these probabilities dropped.
func TestAttentionDropsProbabilities(t *testing.T) {
	const length, heads = 8, 2
	must.Do(t, do(t, func(s *torch.Scope) error {
		identity := make([]float32, length*length)
		for i := range length {
			identity[i*(length+1)] = 1
		}
		unit := s.Float32s(identity, length, length)
		q := s.Float32s(ramp(2*length*heads*length), 2, length, heads*length)
		k := s.Float32s(ramp(2*length*heads*length + 3)[3:], 2, length, heads*length)
		v := s.Contiguous(s.Expand(s.Unsqueeze(s.Cat(1, unit, unit), 0), 2, length, heads*length))
		loss := func(mixed *torch.Tensor) *torch.Tensor {
			return s.SumAll(s.Mul(mixed, s.Float32s(ramp(2*length*heads*length), 2, length, heads*length)))
		}
		var want, got [][]float64
		q.SetRequiresGrad(true)
		kv := s.Cat(2, k, v)
		kv.SetRequiresGrad(true)
		s.Seed(3)
		mixed := s.CrossAttention(q, kv, nil, heads, 0.5, 0.4)
		s.Backward(loss(mixed))
		got = append(got, mixed.Float64s(), s.Grad(q).Float64s(), s.Grad(kv).Float64s())

		plain := s.CrossAttention(q, kv, nil, heads, 0.5, 0)
		kept := s.Detach(s.Div(mixed, plain)) // [2, queries, heads*keys]
		zeros := 0
		for _, x := range kept.Float64s() {
			if x == 0 {
				zeros++
			} else if math.Abs(x-1/0.6) > 1e-4 {
				t.Errorf("a probability was multiplied by %v, want 0 or %v", x, 1/0.6)
			}
		}
		if zeros == 0 || zeros == len(got[0]) {
			t.Errorf("%d of %d probabilities were dropped", zeros, len(got[0]))
		}
		q.ZeroGrad()
		kv.ZeroGrad()
		split := func(x *torch.Tensor) *torch.Tensor {
			return s.Transpose(s.Reshape(x, 2, length, heads, length), 1, 2)
		}
		scores := s.MulScalar(s.MatMul(split(q), s.Transpose(split(s.Narrow(kv, 2, 0, heads*length)), 2, 3)), 0.5)
		p := s.Mul(s.Softmax(scores, 3), split(kept))
		again := s.Reshape(s.Contiguous(s.Transpose(s.MatMul(p, split(s.Narrow(kv, 2, heads*length, heads*length))), 1, 2)), 2, length, heads*length)
		s.Backward(loss(again))
		want = append(want, again.Float64s(), s.Grad(q).Float64s(), s.Grad(kv).Float64s())
		for i, what := range []string{"output", "gradient of the queries", "gradient of keys and values"} {
			near(t, what, got[i], want[i], 1e-5)
		}
		return nil
	}))
}
