package discriminator

import (
	"context"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// Samples of a rank are candidates as often as the batch says, and behind the last rank none is.
func TestCandidatesByRank(t *testing.T) {
	w := ways{
		similar:   [2][][]float32{{{0.9, 0.1}, {0.2, 0.8}, {0.5, 0.4}}},
		candidate: [2][][]bool{{{true, false}, {false, true}, {false, true}}},
	}
	got := w.chosen(0, 3)
	if want := []float64{2.0 / 3, 1.0 / 3, 0}; !slices.Equal(got, want) {
		t.Errorf("by rank %v are candidates, want %v", got, want)
	}
	if at(got, 3) != 0 || rankOf([]float32{0.9, 0.5, 0.1}, 0.5) != 1 {
		t.Errorf("behind the last rank %v are candidates", at(got, 3))
	}
}

// A pair of known truth is selected where samples as similar are candidates, and not where they are none.
func TestSelectionFollowsCandidates(t *testing.T) {
	const n = 5
	d, in := newConD(t, 16), randomInput(n)
	known := func(candidates bool) Known {
		b := allCandidates(n)
		for i := range b.Samples {
			b.Samples[i].ImageID, b.Samples[i].Text = schemas.ImageID{byte(i + 1)}, []string{"a red star", "a blue star", "ring", "cross", "a ring"}[i]
		}
		if !candidates {
			b.M, b.I2T, b.T2I = 1, slices.Repeat(schemas.Int32s{-1}, n), slices.Repeat(schemas.Int32s{-1}, n)
		}
		q := NewQuestions(b, nil, plainTags{}, rng.New(1, "test"))
		return must.Get(d.Known(context.Background(), b, in, q, slices.Repeat(in.IDs[:1], len(q.Edits))))(t)
	}
	// Where all others are candidates, so is every pair that is more similar than the last of them.
	all := known(true)
	if len(all.Positives) == 0 || len(all.Positives) > n || all.Pairs != n {
		t.Errorf("%d of %d own pairs are selected", len(all.Positives), all.Pairs)
	}
	if none := known(false); len(none.Positives)+len(none.Edited)+len(none.Reworded) > 0 || none.Pairs != n {
		t.Errorf("without candidates these are selected: %+v", none)
	}
}
