package cpu_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// benchPairs draws images around centres, and texts that are half their image and half noise.
func benchPairs(n, dim int) (v, t []float32) {
	r := rng.New(5, "bench", int64(n))
	v = knntest.UnitRows(r, n, dim, 1000, 0.5)
	t = make([]float32, len(v))
	for i := range n {
		norm := 0.0
		row := t[i*dim : (i+1)*dim]
		for j := range row {
			row[j] = 0.5*v[i*dim+j] + float32(0.5*r.NormFloat64()/math.Sqrt(float64(dim)))
			norm += float64(row[j]) * float64(row[j])
		}
		for j := range row {
			row[j] /= float32(math.Sqrt(norm))
		}
	}
	return v, t
}

func BenchmarkNeighbors(b *testing.B) {
	const dim = 256
	for _, n := range []int{12_500, 25_000, 50_000, 100_000} {
		b.Run(fmt.Sprintf("D=%d", n), func(b *testing.B) {
			images, texts := benchPairs(n, dim)
			v, t := knntest.Halves(images, dim), knntest.Halves(texts, dim)
			b.ResetTimer()
			before := machine.ProcessorTime()
			for range b.N {
				must.Get((cpu.Engine{}).Neighbors(context.Background(), v, t, knn.Params{K: 10, K1: 5, K2: 500}))(b)
			}
			products := 3 * float64(n) * float64(n) * dim // half of V V^T, all of V T^T, two operations each
			used := (machine.ProcessorTime() - before).Seconds() / float64(b.N)
			b.ReportMetric(products/used/1e9, "GFLOP/cpu-s")
			b.ReportMetric(used, "cpu-s/op")
		})
	}
}
