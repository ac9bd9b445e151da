package eval

import (
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func truthOf(t *testing.T, images int, imageOf ...int32) Truth {
	t.Helper()
	truth := must.Get(NewTruth(images, imageOf))(t)
	return truth
}

func TestByITC(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name    string
		truth   Truth
		sim     []float32
		want    Retrieval
		columns int
	}{
		{
			"every own pair is the nearest", truthOf(t, 2, 0, 1),
			[]float32{3, 1, 1, 3},
			Retrieval{Recalls{100, 100, 100}, Recalls{100, 100, 100}},
			2,
		},
		{
			"every own pair is the farthest", truthOf(t, 2, 0, 1),
			[]float32{1, 3, 3, 1},
			Retrieval{Recalls{0, 100, 100}, Recalls{0, 100, 100}},
			2,
		},
		{"the best of two captions counts", truthOf(t, 2, 0, 0, 1, 1), []float32{
			0, 9, 1, 1, // image 0: its second caption is the nearest
			5, 5, 1, 2, // image 1: rank 2
		}, Retrieval{Recalls{50, 100, 100}, Recalls{50, 100, 100}}, 4},
		{
			"equal scores rank by position", truthOf(t, 2, 0, 1),
			[]float32{1, 1, 1, 1},
			Retrieval{Recalls{50, 100, 100}, Recalls{50, 100, 100}},
			2,
		},
		{
			"no number is last", truthOf(t, 1, 0, 0),
			[]float32{nan, nan},
			Retrieval{Recalls{0, 100, 100}, Recalls{100, 100, 100}},
			2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ByITC(Matrix{c.truth.Images(), c.columns, c.sim}, c.truth); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestRecallThresholds(t *testing.T) {
	got := recalls([]int{0, 1, 4, 5, 9, 10, 10, 10})
	if want := (Recalls{12.5, 37.5, 62.5}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if r := (Retrieval{Recalls{1, 2, 3}, Recalls{4, 5, 6}}); r.RSUM() != 21 {
		t.Errorf("RSUM of 1..6 is %g", r.RSUM())
	}
}

func TestChance(t *testing.T) {
	imageOf := make([]int32, 0, 500) // 100 images of 5 captions, as in the small Flickr split
	for i := range int32(100) {
		imageOf = append(imageOf, i, i, i, i, i)
	}
	got := Chance(truthOf(t, 100, imageOf...))
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"TR@1", got.TR.R1, 1},
		// 1 - C(495,5)/C(500,5) and 1 - C(495,10)/C(500,10)
		{"TR@5", got.TR.R5, 100 * (1 - 495.0/500*494/499*493/498*492/497*491/496)},
		{"TR@10", got.TR.R10, 100 * (1 - 490.0/500*489/499*488/498*487/497*486/496)},
		{"IR@1", got.IR.R1, 1},
		{"IR@5", got.IR.R5, 5},
		{"IR@10", got.IR.R10, 10},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s by chance: %g, want %g", c.name, c.got, c.want)
		}
	}
	if all := Chance(truthOf(t, 2, 0, 1)); all.TR.R5 != 100 || all.IR.R10 != 100 {
		t.Errorf("fewer candidates than places: %+v, want 100", all)
	}
}

func TestNewTruthRefuses(t *testing.T) {
	if _, err := NewTruth(2, []int32{0, 2}); err == nil {
		t.Error("a text of an image that is not there was accepted")
	}
	if _, err := NewTruth(2, []int32{0, 0}); err == nil {
		t.Error("an image without a text was accepted")
	}
}

func TestTopK(t *testing.T) {
	row := []float32{1, 5, 3, 5, 0}
	for k, want := range map[int][]int32{1: {1}, 3: {1, 3, 2}, 9: {1, 3, 2, 0, 4}} {
		if got := TopK(row, k); !slices.Equal(got, want) {
			t.Errorf("top %d of %v: %v, want %v", k, row, got, want)
		}
	}
}

func TestRerank(t *testing.T) {
	truth := truthOf(t, 3, 0, 1, 2)
	sim := Matrix{3, 3, []float32{
		9, 8, 1, // image 0: text 0 first
		9, 8, 1, // image 1: own text second
		9, 8, 1, // image 2: own text third
	}}
	r := NewRerank(sim, truth, 2)
	pairs := r.Pairs()
	want := []Pair{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {2, 0}, {2, 1}}
	if !slices.Equal(pairs, want) {
		t.Fatalf("pairs to score: %v, want %v", pairs, want)
	}
	scores := make([]float32, len(pairs))
	for n, p := range pairs {
		if p.Image == p.Text {
			scores[n] = 1 // the head knows the true pairs
		}
	}
	got := r.Recalls(pairs, scores)
	// Text 2 is not among the two candidates of image 2, nor image 2 among those of text 2: the head cannot help.
	if third := 100.0 / 3; got.TR.R1 != 2*third || got.IR.R1 != 2*third {
		t.Errorf("two candidates: %+v, want R@1 %g", got, 2*third)
	}
	all := NewRerank(sim, truth, 0)
	pairs = all.Pairs()
	if len(pairs) != 9 {
		t.Fatalf("%d pairs for all candidates of 3 x 3", len(pairs))
	}
	scores = make([]float32, len(pairs))
	for n, p := range pairs {
		if p.Image == p.Text {
			scores[n] = 1
		}
	}
	if got := all.Recalls(pairs, scores); got.RSUM() != 600 {
		t.Errorf("all candidates and a perfect head: %+v, want 600", got)
	}
	if got, byITC := all.Recalls(pairs, make([]float32, len(pairs))), ByITC(sim, truth); got != byITC {
		t.Errorf("a head without opinion: %+v, want the order of similarity %+v", got, byITC)
	}
}
