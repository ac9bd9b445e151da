package device

import (
	"context"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/knn/knntest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// benchPairs draws pairs like those of a crawl.
func benchPairs(n, dim int) (v, t knn.Matrix) {
	crawl := knntest.New(rng.New(1, "bench", int64(n)), 100, 10, dim)
	var images, texts []float32
	for range n {
		image, text := crawl.Next()
		images, texts = append(images, image...), append(texts, text...)
	}
	return knntest.Halves(images, dim), knntest.Halves(texts, dim)
}

// eachEngine runs a benchmark with the processor's engine and with this one on the processor. This one is slower. It is
// made for a GPU, whose products and passes over tiles cost next to nothing.
func eachEngine(b *testing.B, run func(b *testing.B, e knn.Engine)) {
	w := newWorker(b, 0)
	rounded := New(w, Options{})
	rounded.halves = true
	for _, e := range []struct {
		name   string
		engine knn.Engine
	}{{"cpu", cpu.Engine{}}, {"device", New(w, Options{})}, {"device, products in float16", rounded}} {
		b.Run(e.name, func(b *testing.B) {
			before := machine.ProcessorTime()
			for range b.N {
				run(b, e.engine)
			}
			b.ReportMetric((machine.ProcessorTime()-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

func BenchmarkNeighbors(b *testing.B) {
	const dim = 256
	for _, n := range []int{12_500, 25_000} {
		b.Run(fmt.Sprintf("D=%d", n), func(b *testing.B) {
			v, t := benchPairs(n, dim)
			eachEngine(b, func(b *testing.B, e knn.Engine) {
				must.Get(e.Neighbors(context.Background(), v, t, knn.Params{K: 10, K1: 5, K2: 500}))(b)
			})
		})
	}
}

func BenchmarkKMeans(b *testing.B) {
	const n, dim, clusters, rounds = 25_000, 256, 1000, 20
	x, _ := benchPairs(n, dim)
	eachEngine(b, func(b *testing.B, e knn.Engine) {
		seeds := must.Get(knn.Seeds(context.Background(), e, x, clusters, rng.New(1, "seeds")))(b)
		must.Get(e.KMeans(context.Background(), x, knn.KMeansParams{Init: seeds, Iterations: rounds}))(b)
	})
}
