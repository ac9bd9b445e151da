package plans_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// partOf writes a plan of one lane, with as many mini-batches in each epoch as counts say. Their keys are name, epoch and
// number.
func partOf(t *testing.T, name string, weight float64, counts ...int) plans.Part {
	t.Helper()
	p := plans.Part{Dir: t.TempDir(), Weight: weight}
	w := plans.NewWriter(p.Dir, 0, 0.5, func(at plans.Place) string { return fmt.Sprint(name, at.Offset) })
	for epoch, count := range counts {
		for sequence := range count {
			b := schemas.Batch{Epoch: int32(epoch), Sequence: int32(sequence), M: 1, I2T: schemas.Int32s{0}, T2I: schemas.Int32s{-1}}
			b.Samples = []schemas.Sample{{Image: schemas.ImageRef{Offset: int64(10*epoch + sequence)}}}
			must.Do(t, w.Add(&schemas.ScoredBatch{Batch: b, ProbI2T: schemas.Floats32{0.9}, ProbT2I: schemas.Floats32{0}}))
		}
	}
	p.Files = must.Get(w.Close())(t)
	return p
}

// TestBlend has a plan that sets the epochs, one that goes on from epoch to epoch, and one that begins again.
func TestBlend(t *testing.T) {
	parts := []plans.Part{partOf(t, "a", 4, 4, 4), partOf(t, "b", 2, 3, 3), partOf(t, "c", 1, 1)}
	dir := t.TempDir()
	files := must.Get(plans.Blend(t.Context(), dir, parts))(t)
	for epoch, want := range [][]string{
		{"a0", "a1", "b0", "a2", "a3", "b1", "c0"},
		{"a10", "a11", "b2", "a12", "a13", "b10", "c0"},
	} {
		var keys []string
		groups := map[string]int64{}
		for rows, err := range plans.Batches(t.Context(), filepath.Join(dir, files[epoch].Name)) {
			must.Do(t, err)
			keys = append(keys, rows[0].Key)
			groups[rows[0].Key[:1]] = rows[0].Group >> 48
		}
		if !slices.Equal(keys, want) || groups["a"] != 0 || groups["b"] != 1 || groups["c"] != 2 {
			t.Errorf("epoch %d is %q by groups %v, want %q", epoch, keys, groups, want)
		}
		if f := files[epoch]; f.Batches != 7 || f.Scores != 7 || f.High != 7 {
			t.Errorf("epoch %d is described by %+v", epoch, f)
		}
	}
	other := t.TempDir()
	again := must.Get(plans.Blend(t.Context(), other, parts))(t)
	if !slices.Equal(again, files) {
		t.Errorf("made again it is %+v, want %+v", again, files)
	}
	if _, err := plans.Blend(t.Context(), other, []plans.Part{parts[0], partOf(t, "none", 1)}); err == nil {
		t.Error("a plan without mini-batches takes part")
	}
	if left := must.Get(filepath.Glob(filepath.Join(other, "*.partial")))(t); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}
