package trainer

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// BenchmarkStep measures a step of the smallest preset on 96 pairs with captions of 8 to 14 tokens, as in the demo.
func BenchmarkStep(b *testing.B) {
	w := must.Get(torch.NewWorker(torchtest.On(torch.WorkerOptions{Threads: 2, Deterministic: true})))(b)
	defer w.Close()
	config := must.Get(model.Preset("tiny", 500))(b)
	m := must.Get(model.New(context.Background(), w, config, 7))(b)
	tr := must.Get(newTrainer(context.Background(), m, Vocabulary{Size: 500, Pad: 0, CLS: 2, Mask: 4}, MAFA()))(b)
	defer tr.Free()
	const n = 96
	r := rng.New(1, "input")
	in := Input{Pixels: make([]float32, n*3*config.ImageSize*config.ImageSize)}
	for i := range in.Pixels {
		in.Pixels[i] = float32(r.NormFloat64())
	}
	for range n {
		ids := []int32{2}
		for range 6 + r.IntN(7) {
			ids = append(ids, int32(5+r.IntN(495)))
		}
		in.IDs = append(in.IDs, append(ids, 3))
	}
	for b.Loop() {
		must.Get(tr.Step(context.Background(), testBatch(n, 0), in))(b)
	}
}
