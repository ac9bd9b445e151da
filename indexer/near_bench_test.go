package indexer

import (
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// BenchmarkNear compares the images of 100,000 pairs, in 1,000 clusters of equal size, when none resembles another: the
// most work that there can be.
func BenchmarkNear(b *testing.B) {
	const pairs, width, clusters = 100_000, 256, 1000
	r := rng.New(1, "near-duplicates")
	values := make([]float32, pairs*width)
	for i := range values {
		values[i] = float32(r.NormFloat64()) / 16
	}
	var halves []uint16
	raw := schemas.NewFloat16s(values)
	for i := 0; i < len(raw); i += 2 {
		halves = append(halves, uint16(raw[i])|uint16(raw[i+1])<<8)
	}
	first, lists := make([]int32, pairs), make([][]int32, clusters)
	for i := range first {
		first[i] = int32(i)
		lists[i%clusters] = append(lists[i%clusters], int32(i))
	}
	for b.Loop() {
		s := nearSearch{v: knn.HalfMatrix(halves, width), first: first, above: 0.95, to: make([]int32, pairs), cosine: make([]float32, pairs)}
		for i := range s.to {
			s.to[i] = -1
		}
		must.Do(b, s.run(b.Context(), lists, 1))
	}
	b.ReportMetric(pairs*float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
