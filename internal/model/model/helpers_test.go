package model_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// smallVocab returns the special tokens and a letter each.
func smallVocab() []string {
	vocab := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	for c := 'a'; c <= 'z'; c++ {
		vocab = append(vocab, string(c), "##"+string(c))
	}
	return vocab
}

// smallConfig returns odd sizes, where a kernel's code for whole vectors meets its code for the rest.
func smallConfig() model.Config {
	return model.Config{
		ImageSize: 20, PatchSize: 4, VisionDim: 36, VisionDepth: 2, VisionHeads: 3,
		TextHidden: 28, TextLayers: 4, FusionLayer: 2, TextHeads: 2, TextIntermediate: 50,
		VocabSize: len(smallVocab()), MaxPositions: 11, EmbedDim: 13, TextTokens: 9,
	}
}

// frozen returns a copy of a model whose weights nobody changes, as the stages load it.
func frozen(t testing.TB, m *model.Model, w *torch.Worker) *model.Model {
	t.Helper()
	m.Vocab = smallVocab()
	path := filepath.Join(t.TempDir(), "frozen.safetensors")
	must.Do(t, m.Save(context.Background(), path))
	copied := must.Get(model.Load(context.Background(), w, path, model.LoadOptions{Frozen: true}))(t)
	t.Cleanup(copied.Free)
	return copied
}

func newModel(t testing.TB, w *torch.Worker, c model.Config, seed uint64) *model.Model {
	t.Helper()
	m := must.Get(model.New(context.Background(), w, c, seed))(t)
	t.Cleanup(m.Free)
	return m
}

func newEncoder(t testing.TB, w *torch.Worker, c model.Config, batch int) *model.Encoder {
	t.Helper()
	m := newModel(t, w, c, 3)
	m.Vocab = smallVocab()
	e := must.Get(model.NewEncoder(context.Background(), m, batch))(t)
	return e
}

func newFrozenEncoder(t testing.TB, w *torch.Worker, c model.Config, batch int) *model.Encoder {
	t.Helper()
	return must.Get(model.NewEncoder(context.Background(), frozen(t, newModel(t, w, c, 3), w), batch))(t)
}

// noisePixels returns random bytes.
func noisePixels(r *rand.Rand, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

func noise(r *rand.Rand, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64())
	}
	return out
}

func caption(r *rand.Rand) string {
	out := make([]byte, r.IntN(14))
	for i := range out {
		out[i] = "abcdefgh   "[r.IntN(11)]
	}
	return string(out)
}

func preciseWorker(t testing.TB, threads int, precision torch.DType) *torch.Worker {
	t.Helper()
	return torchtest.NewWorker(t, torch.WorkerOptions{Threads: threads, Deterministic: true, Precision: precision})
}
