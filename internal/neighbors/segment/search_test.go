//go:build cgo

package segment

import (
	"slices"
	"sort"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestSearchIsExactAmongFewRows compares a search that visits all lists with every row's score, by both engines and
// with any number of workers.
func TestSearchIsExactAmongFewRows(t *testing.T) {
	const n, dim, k, queries = 250, 16, 7, 40
	crawl := knntest.New(rng.New(2, "segment"), 4, 3, dim)
	a, b := build(t, draw(t, crawl, 1, n, dim, 8)), build(t, draw(t, crawl, 2, n, dim, 5))
	q := NewQueries(queries, dim, func(_ int, dst []float32) []float32 {
		image, _ := crawl.Next()
		return append(dst, image...)
	})
	odd := func(_ int, h Hit) bool { return h.Row%2 == 1 }
	var want [][]Hit
	for i := range queries {
		var all []Hit
		for number, s := range []*Segment{a, b} {
			for row := 1; row < n; row += 2 {
				all = append(all, Hit{int32(number), int32(row), q.Score(i, s.Codes(Text), row)})
			}
		}
		sort.Slice(all, func(i, j int) bool { return better(all[i], all[j]) < 0 })
		want = append(want, all[:k])
	}
	for _, scanner := range []knn.CodeScanner{cpu.Engine{}, reference.Engine{}} {
		for _, workers := range []int{1, 3} {
			got := must.Get(NewIndex(scanner, a, b).Search(t.Context(), Text, q, k, workers, odd))(t)
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%T, %d workers: other hits", scanner, workers)
			}
		}
	}
}

// TestRecall compares searches with exact ones over the vectors that were coded, in 96,000 rows of which a search
// visits a sixth.
func TestRecall(t *testing.T) {
	const groups, n, dim, lists, queries, k = 4, 24_000, 32, 150, 300, 10
	crawl := knntest.New(rng.New(3, "segment"), 40, 10, dim)
	var segments []*Segment
	var parts []*drawn
	for seq := range groups {
		d := draw(t, crawl, int64(seq), n, dim, lists)
		parts, segments = append(parts, d), append(segments, build(t, d))
	}
	index := NewIndex(cpu.Engine{}, segments...)
	if got, want := index.visits(), groups*lists/5; got > want {
		t.Fatalf("a search visits %d of %d lists, want at most %d", got, groups*lists, want)
	}
	vectors := make([][]float32, queries)
	for i := range vectors {
		vectors[i], _ = crawl.Next()
	}
	q := NewQueries(queries, dim, func(i int, dst []float32) []float32 { return append(dst, vectors[i]...) })
	for _, m := range []Modality{Image, Text} {
		got := must.Get(index.Search(t.Context(), m, q, k, 2, nil))(t)
		found := 0
		for i, vector := range vectors {
			found += hitsOf(t, parts, segments, m, vector, got[i], k)
		}
		recall := float64(found) / (queries * k)
		t.Logf("modality %d: recall@%d is %.4f", m, k, recall)
		if recall < 0.95 {
			t.Errorf("modality %d: recall@%d is %.4f, want 0.95", m, k, recall)
		}
	}
}

// hitsOf counts the k exact nearest that a search has found.
func hitsOf(t *testing.T, parts []*drawn, segments []*Segment, m Modality, vector []float32, got []Hit, k int) int {
	t.Helper()
	type exact struct {
		segment, position int
		score             float32
	}
	var all []exact
	for number, d := range parts {
		x := d.V
		if m == Text {
			x = d.T
		}
		hits := must.Get(cpu.Engine{}.Scan(x, 0, vector, k))(t)
		for _, h := range hits {
			all = append(all, exact{number, int(h.Row), h.Similarity})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].score > all[j].score })
	found := 0
	for _, e := range all[:k] {
		if slices.ContainsFunc(got, func(h Hit) bool {
			return int(h.Segment) == e.segment && segments[h.Segment].Position(int(h.Row)) == e.position
		}) {
			found++
		}
	}
	return found
}
