package interval

import (
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
)

func TestPool(t *testing.T) {
	sure := Share{0.9, 0.85, 0.95}
	for name, c := range map[string]struct {
		part, whole int
		model       Share
		low, high   float64 // bounds of the ends
		narrower    bool    // than the model's
	}{
		"nothing counted":          {0, 0, sure, 0.85, 0.95, false},
		"a model knows nothing":    {9, 10, Share{0, 0, 1}, 0.59, 0.99, true},
		"both say the same":        {90, 100, sure, 0.85, 0.95, true},
		"people say otherwise":     {20, 100, sure, 0.12, 0.36, false},
		"a model that is too sure": {20, 100, Share{0.9, 0.9, 0.9}, 0.12, 0.36, false},
		"at the end":               {0, 40, Share{0, 0, 0.1}, 0, 0.1, true},
	} {
		got := Pool(c.part, c.whole, c.model)
		if got.Low < c.low-1e-9 || got.High > c.high+1e-9 || got.Value < got.Low || got.Value > got.High {
			t.Errorf("%s: %+v, want it within %g to %g", name, got, c.low, c.high)
		}
		if narrower := got.High-got.Low < c.model.High-c.model.Low-1e-9; narrower != c.narrower {
			t.Errorf("%s: %+v, want it narrower than %+v: %t", name, got, c.model, c.narrower)
		}
	}
}

// Each further judgement moves the estimate towards what people say, whatever the model says.
func TestPeopleWin(t *testing.T) {
	for _, truth := range []float64{0.1, 0.5} {
		before := math.Inf(1)
		for _, n := range []int{10, 30, 100, 300, 1000} {
			far := math.Abs(Pool(int(truth*float64(n)), n, Share{0.9, 0.8, 1}).Value - truth)
			if far > before {
				t.Errorf("%d judgements leave the estimate %.3f from %g, and fewer %.3f", n, far, truth, before)
			}
			before = far
		}
		if before > 0.03 {
			t.Errorf("1,000 judgements leave the estimate %.3f from %g", before, truth)
		}
	}
}

// The pooled interval covers the truth, whether the model's own interval does or is far off.
func TestPoolCovers(t *testing.T) {
	draws := rng.New(1, "interval.pool")
	for _, bias := range []float64{0, 0.1, 0.4} {
		for _, n := range []int{20, 40, 160} {
			const worlds = 1000
			covered := 0
			for range worlds {
				truth := 0.1 + 0.8*draws.Float64()
				right := 0
				for range n {
					if draws.Float64() < truth {
						right++
					}
				}
				const half = 0.15
				at := truth + half/z*draws.NormFloat64() + bias
				model := Share{max(0, min(1, at)), max(0, min(1, at-half)), max(0, min(1, at+half))}
				if got := Pool(right, n, model); got.Low <= truth && truth <= got.High {
					covered++
				}
			}
			t.Logf("bias %.1f, %d judgements: %.1f %% covered", bias, n, 100*float64(covered)/worlds)
			want := 0.9
			if bias > 0 && n == 20 { // so few hardly tell a small bias from chance
				want = 0.85
			}
			if float64(covered)/worlds < want {
				t.Errorf("bias %.1f, %d judgements: %d of %d intervals cover the truth", bias, n, covered, worlds)
			}
		}
	}
}
