package eval_test

import (
	"testing"

	"github.com/pairstream/pairstream/internal/model/eval"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestEveryTrueMatchIsFound counts a text that is true of another image as found, by similarity and re-ranked.
func TestEveryTrueMatchIsFound(t *testing.T) {
	own := must.Get(eval.NewTruth(3, []int32{0, 1, 2}))(t)
	all := own.With(func(image, text int) bool { return image == 0 && text == 1 })
	sim := eval.Matrix{Rows: 3, Cols: 3, Data: make([]float32, 9)}
	for image, row := range [][]float32{{0.1, 0.9, 0}, {0, 0.5, 0.1}, {0, 0.2, 0.9}} { // image 0 finds text 1, and text 1 image 0
		copy(sim.Row(image), row)
	}
	if got := eval.ByITC(sim, own); got.TR.R1 != 100*2./3 || got.IR.R1 != 100*2./3 {
		t.Errorf("own pairs alone: R@1 %v and %v, want two of three", got.TR.R1, got.IR.R1)
	}
	if got := eval.ByITC(sim, all); got.TR.R1 != 100 || got.IR.R1 != 100 {
		t.Errorf("every true match: R@1 %v and %v, want all", got.TR.R1, got.IR.R1)
	}
	for name, c := range map[string]struct {
		truth eval.Truth
		want  float64
	}{"own": {own, 100 * 2. / 3}, "all": {all, 100}} {
		rerank := eval.NewRerank(sim, c.truth, 3)
		pairs := rerank.Pairs()
		scores := make([]float32, len(pairs))
		for i, p := range pairs {
			scores[i] = sim.Row(int(p.Image))[p.Text]
		}
		if got := rerank.Recalls(pairs, scores); got.TR.R1 != c.want || got.IR.R1 != c.want {
			t.Errorf("%s: re-ranked R@1 %v and %v, want %v", name, got.TR.R1, got.IR.R1, c.want)
		}
	}
}
