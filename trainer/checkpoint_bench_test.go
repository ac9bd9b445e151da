package trainer

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// BenchmarkCheckpoint measures a checkpoint of the preset small: what the training loop waits for, and the whole.
func BenchmarkCheckpoint(b *testing.B) {
	w := must.Get(torch.NewWorker(torchtest.On(torch.WorkerOptions{Threads: 2, Deterministic: true})))(b)
	defer w.Close()
	config := must.Get(model.Preset("small", 30522))(b)
	m := must.Get(model.New(context.Background(), w, config, 7))(b)
	tr := must.Get(newTrainer(context.Background(), m, Vocabulary{Size: 30522, Pad: 0, CLS: 2, Mask: 4}, MAFA()))(b)
	defer tr.Free()
	dir := b.TempDir()
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			must.Get(tr.Save(context.Background(), dir, nil, 0))(b)
		}
	})
}
