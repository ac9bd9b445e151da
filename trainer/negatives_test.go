package trainer

import (
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
)

// The draw inverts the cumulative distribution: uniform u gives the first index whose cumulative weight is above u.
func TestDrawInvertsTheDistribution(t *testing.T) {
	weights := []float64{0, 1, 0, 3, 0, 4, 0}
	for k := range 64 {
		r := rng.New(uint64(k), "draw")
		u := rng.New(uint64(k), "draw").Float64()
		want := int32(5)
		switch {
		case u < 1.0/8:
			want = 1
		case u < 4.0/8:
			want = 3
		}
		if got := draw(weights, r); got != want {
			t.Errorf("uniform %g draws %d, want %d", u, got, want)
		}
	}
	if got := draw(make([]float64, 3), rng.New(1, "draw")); got != -1 {
		t.Errorf("nothing to draw from gives %d, want -1", got)
	}
}

// chiSquare compares counts with a distribution.
func chiSquare(counts []int, share []float64, n int) (x float64, degrees int) {
	for j, c := range counts {
		if share[j] == 0 {
			continue
		}
		want := share[j] * float64(n)
		x += (float64(c) - want) * (float64(c) - want) / want
		degrees++
	}
	return x, degrees - 1
}

// Drawn negatives follow the softmax of the similarities, or are uniform. They are never ineligible, and the second is
// never the first.
func TestNegativesAreDrawn(t *testing.T) {
	row := []float32{2, -1, 0.5, 9, 1, 0, 0.25}
	eligible := []bool{true, true, true, false, true, true, false}
	softmax, uniform, sum := make([]float64, len(row)), make([]float64, len(row)), 0.0
	for j, ok := range eligible {
		if ok {
			softmax[j], uniform[j] = math.Exp(float64(row[j])), 0.2
			sum += softmax[j]
		}
	}
	for j := range softmax {
		softmax[j] /= sum
	}
	const n = 100_000
	for kind, share := range map[Negatives][]float64{MultinomialNegatives: softmax, RandomNegatives: uniform} {
		choose := kind.chooser(3, unscored(1))
		first, second := make([]int, len(row)), make([]int, len(row))
		for range n {
			a, b := choose(row, eligible)
			if a == b || !eligible[a] || !eligible[b] {
				t.Fatalf("%s: drew %d and %d", kind, a, b)
			}
			first[a]++
			second[b]++
		}
		// 18.5 is exceeded once in a thousand seeds, at 4 degrees of freedom.
		if x, degrees := chiSquare(first, share, n); x > 18.5 || degrees != 4 {
			t.Errorf("%s: chi-square is %.1f at %d degrees of freedom; drew %v", kind, x, degrees, first)
		}
		if kind == RandomNegatives {
			if x, _ := chiSquare(second, share, n); x > 18.5 {
				t.Errorf("%s: chi-square of the second draw is %.1f", kind, x)
			}
		}
	}
}

// The same batch gets the same draws, and another batch gets others. Hardest draws nothing.
func TestNegativesAreKeyedByTheBatch(t *testing.T) {
	row, eligible := make([]float32, 40), make([]bool, 40)
	for j := range eligible {
		eligible[j] = true
	}
	draws := func(kind Negatives, sequence int) (got []int32) {
		b := unscored(1)
		b.Sequence = int32(sequence)
		choose := kind.chooser(3, b)
		for range 8 {
			first, second := choose(row, eligible)
			got = append(got, first, second)
		}
		return got
	}
	for _, kind := range []Negatives{MultinomialNegatives, RandomNegatives} {
		if a, b := draws(kind, 0), draws(kind, 0); !slices.Equal(a, b) {
			t.Errorf("%s: one batch draws %v and %v", kind, a, b)
		}
		if a, b := draws(kind, 0), draws(kind, 1); slices.Equal(a, b) {
			t.Errorf("%s: two batches draw the same %v", kind, a)
		}
	}
	if got := draws(HardestNegatives, 0); got[0] != 0 || got[1] != 1 || got[2] != 0 {
		t.Errorf("hardest takes %v of equal similarities, want 0 and 1", got)
	}
}

// A step with drawn negatives repeats.
func TestStepsRepeatWithDrawnNegatives(t *testing.T) {
	o := MAFA()
	o.ITMNegatives = MultinomialNegatives
	a, b := testTrainer(t, o), testTrainer(t, o)
	for i := range 2 {
		mustStep(t, a, unscored(8), testInput(8, i))
		mustStep(t, b, unscored(8), testInput(8, i))
	}
	if fa, fb := fingerprint(t, a), fingerprint(t, b); fa != fb {
		t.Errorf("the same steps end in weights %s and %s", fa, fb)
	}
	hard := testTrainer(t, MAFA())
	for i := range 2 {
		mustStep(t, hard, unscored(8), testInput(8, i))
	}
	if fingerprint(t, a) == fingerprint(t, hard) {
		t.Error("drawn negatives train as the hardest")
	}
}
