package discriminator

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// BenchmarkScore is a batch of 16 with all others as candidates, by a Con-D of preset small.
func BenchmarkScore(b *testing.B) {
	for _, precision := range []torch.DType{torch.Float32, torch.BFloat16} {
		b.Run(precision.String(), func(b *testing.B) { benchmarkScore(b, precision) })
	}
}

func benchmarkScore(b *testing.B, precision torch.DType) {
	const n, vocab = 16, 8000
	w := must.Get(torch.NewWorker(torchtest.On(torch.WorkerOptions{Threads: 2, Deterministic: true, Precision: precision})))(b)
	defer w.Close()
	config := must.Get(model.Preset("small", vocab))(b)
	m := must.Get(model.New(context.Background(), w, config, 7))(b)
	defer m.Free()
	m.Vocab = make([]string, vocab)
	m.Vocab[0] = "[PAD]"
	matcher := must.Get(model.NewMatcher(context.Background(), m))(b)
	d := must.Get(New(matcher, Options{}))(b)
	r := rng.New(1, "benchmark")
	in := Input{Pixels: make([]float32, n*3*config.ImageSize*config.ImageSize)}
	for i := range in.Pixels {
		in.Pixels[i] = float32(r.NormFloat64())
	}
	for range n {
		ids := make([]int32, 8+r.IntN(10))
		for i := range ids {
			ids[i] = int32(1 + r.IntN(vocab-1))
		}
		in.IDs = append(in.IDs, ids)
	}
	batch := allCandidates(n)
	for b.Loop() {
		must.Get(d.Score(context.Background(), batch, in))(b)
	}
	b.ReportMetric(float64(n*(n-1)*b.N)/b.Elapsed().Seconds(), "candidates/s")
}
