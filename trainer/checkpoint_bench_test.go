package trainer

import (
	"context"
	"testing"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/internal/torch/torchtest"
)

// BenchmarkCheckpoint measures a checkpoint of the preset small: what the training loop waits for, and the whole.
func BenchmarkCheckpoint(b *testing.B) {
	w, err := torch.NewWorker(torchtest.On(torch.WorkerOptions{Threads: 2, Deterministic: true}))
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	config, err := model.Preset("small", 30522)
	if err != nil {
		b.Fatal(err)
	}
	m, err := model.New(context.Background(), w, config, 7)
	if err != nil {
		b.Fatal(err)
	}
	tr, err := newTrainer(context.Background(), m, Vocabulary{Size: 30522, Pad: 0, CLS: 2, Mask: 4}, MAFA())
	if err != nil {
		b.Fatal(err)
	}
	defer tr.Free()
	dir := b.TempDir()
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			if _, err := tr.Save(context.Background(), dir, nil, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
}
