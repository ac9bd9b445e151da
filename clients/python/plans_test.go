package python

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// readPlan prints the mini-batches of a plan, a line each.
const readPlan = `
import json, sys
from pairstream.plans import Plan
for b in (plan := Plan(sys.argv[1])).batches(plan.epochs - 1):
    print(json.dumps({
        "lane": b.lane, "group": b.group, "epoch": b.epoch, "sequence": b.sequence, "pairs": b.pairs, "images": b.images, "keys": b.keys, "texts": b.texts,
        "places": ["%s %d %d %s" % p for p in b.places], "positives": ["%s %s %d %d %s" % (p[0], *p[1]) if p else "" for p in b.positives], "i2t": b.i2t.tolist(), "t2i": b.t2i.tolist(),
        "prob_i2t": b.prob_i2t.tolist(), "same": b.same_image.sum(1).tolist(), "replaced": b.replaced.tolist(), "high": b.high, "low": b.low,
    }))
plan.verify()
`

// TestReadPlan reads in Python what package plans writes.
func TestReadPlan(t *testing.T) {
	run := python(t, "numpy", "pyarrow")
	rec, _ := golden(t, "scored-batch")
	want := rec.(*schemas.ScoredBatch)
	want.Masked, want.High = nil, 0.75
	dir := t.TempDir()
	w := plans.NewWriter(dir, 3, 0.8, func(at plans.Place) string { return fmt.Sprint("key of ", at.Offset) })
	must.Do(t, w.Add(want))
	files := must.Get(w.Close())(t)
	manifest := must.Get(json.Marshal(map[string]any{"version": plans.Version, "low": 0.5, "files": files}))(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "plan.json"), manifest, 0o600))
	var got struct {
		Lane, Group, Epoch, Sequence int64
		Pairs, Images, Keys, Texts   []string
		Places, Positives            []string
		I2T, T2I                     [][]int32
		ProbI2T                      [][]float32 `json:"prob_i2t"`
		Same                         []int
		Replaced                     []bool
		High, Low                    float64
	}
	must.Do(t, json.Unmarshal([]byte(mustRun(t, run, "-c", readPlan, dir)), &got))
	if got.Lane != 3 || got.Group != want.Group.Seq || got.Epoch != int64(want.Epoch) || got.Sequence != int64(want.Sequence) || got.High != 0.75 || got.Low != 0.5 {
		t.Errorf("read %+v", got)
	}
	if !slices.Equal(slices.Concat(got.I2T...), want.I2T) || !slices.Equal(slices.Concat(got.T2I...), want.T2I) ||
		!slices.Equal(slices.Concat(got.ProbI2T...), want.ProbI2T) || len(got.Pairs) != len(want.Samples) {
		t.Errorf("candidates are %v, %v with %v, want %v, %v with %v", got.I2T, got.T2I, got.ProbI2T, want.I2T, want.T2I, want.ProbI2T)
	}
	for i, s := range want.Samples {
		if got.Pairs[i] != s.ID.String() || got.Images[i] != s.ImageID.String() || got.Texts[i] != s.Text || got.Replaced[i] != s.Replaced ||
			got.Keys[i] != fmt.Sprint("key of ", s.Image.Offset) || got.Places[i] != place(s.Image) || got.Same[i] != len(s.Partners) {
			t.Errorf("sample %d is read as %s %s %q at %v, want %+v", i, got.Pairs[i], got.Keys[i], got.Texts[i], got.Places[i], s)
		}
		positive := ""
		if p := s.Positive; p != nil {
			positive = p.ImageID.String() + " " + place(p.Image)
		}
		if got.Positives[i] != positive {
			t.Errorf("the positive of sample %d is %v, want %s", i, got.Positives[i], positive)
		}
	}
}

// place is what [readPlan] prints of a reference.
func place(r schemas.ImageRef) string {
	hash := ""
	if !r.Copy.IsZero() {
		hash = r.Copy.String()
	}
	return fmt.Sprintf("%s %d %d %s", r.URI, r.Offset, r.Size, hash)
}
