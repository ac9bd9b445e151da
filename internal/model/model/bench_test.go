package model_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// batchOf is a synthetic batch for a model.
type batchOf struct {
	n         int
	pixels    []float32
	ids, mask []int64
	own, next []int64
	positions []int64
	targets   []int64
}

func newBatch(c model.Config, n int) batchOf {
	r := rng.New(2, "synthetic batch")
	b := batchOf{n: n, pixels: noise(r, n*3*c.ImageSize*c.ImageSize)}
	for i := range n {
		length := 8 + r.IntN(c.TextTokens-7)
		for k := range c.TextTokens {
			id, real := int64(0), int64(0)
			if k < length {
				id, real = int64(1+r.IntN(c.VocabSize-1)), 1
			}
			b.ids, b.mask = append(b.ids, id), append(b.mask, real)
			if real == 1 && k > 0 && r.IntN(2) == 0 {
				b.positions = append(b.positions, int64(i*c.TextTokens+k))
				b.targets = append(b.targets, id)
			}
		}
		b.own = append(b.own, int64(i))
		b.next = append(b.next, int64((i+1)%n))
	}
	return b
}

// step takes a training step of GRIT-VLP and returns the loss.
func step(s *torch.Scope, m *model.Model, b batchOf) *torch.Tensor {
	c := m.Config
	n, size := int64(b.n), int64(c.ImageSize)
	ids, mask := s.Int64s(b.ids, n, int64(c.TextTokens)), s.Int64s(b.mask, n, int64(c.TextTokens))
	images := m.Image(s, s.Float32s(b.pixels, n, 3, size, size))
	texts := m.Text(s, ids, mask)
	v, t := m.ImageFeature(s, images), m.TextFeature(s, texts)
	own := s.Int64s(b.own, n)
	temperature := m.Temperature(s)
	similarity := s.Div(s.MatMul(v, s.Transpose(s.Detach(t), 0, 1)), temperature)
	other := s.Div(s.MatMul(t, s.Transpose(s.Detach(v), 0, 1)), temperature)
	itc := s.Add(s.CrossEntropy(similarity, own, -100), s.CrossEntropy(other, own, -100))
	pairs := func(a, b []int64) []int64 { return append(append([]int64(nil), a...), b...) }
	view := m.View(s, images)
	logits := m.MatchPairs(s, texts, mask, view, pairs(pairs(b.own, b.next), b.own), pairs(pairs(b.own, b.own), b.next))
	labels := make([]int64, 3*b.n)
	for i := range b.n {
		labels[i] = 1
	}
	itm := s.CrossEntropy(logits, s.Int64s(labels, 3*n), -100)
	masked := m.MaskedLogitsAt(s, ids, mask, view, b.positions)
	mlm := s.CrossEntropy(masked, s.Int64s(b.targets, int64(len(b.targets))), -100)
	return s.Add(s.Add(itc, itm), mlm)
}

func benchmarkStep(b *testing.B, preset string, vocab, batch, threads int, precision torch.DType) {
	c := must.Get(model.Preset(preset, vocab))(b)
	w := preciseWorker(b, threads, precision)
	m := newModel(b, w, c, 1)
	data := newBatch(c, batch)
	var params []*torch.Tensor
	values := int64(0)
	for _, p := range m.Params() {
		params = append(params, p.Tensor)
	}
	must.Do(b, w.Do(context.Background(), func(s *torch.Scope) error {
		for _, p := range params {
			values += p.Numel()
		}
		optimiser, err := torch.NewAdamW(params, make([]bool, len(params)), torch.DefaultAdamW)
		if err != nil {
			return err
		}
		defer optimiser.Free()
		before := cpuSeconds(b)
		for b.Loop() {
			if err := s.Nest(func(s *torch.Scope) error {
				s.Backward(step(s, m, data))
				return optimiser.Step(1e-4)
			}); err != nil {
				return err
			}
			if err := optimiser.ZeroGrad(); err != nil {
				return err
			}
		}
		b.ReportMetric((cpuSeconds(b)-before)/float64(b.N), "cpu-s/op")
		return nil
	}))
	b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(values)/1e6, "Mparams")
}

// cpuSeconds returns the processor time of this process so far. On a busy machine it says more than the clock.
func cpuSeconds(b *testing.B) float64 {
	b.Helper()
	var usage syscall.Rusage
	must.Do(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func BenchmarkStep(b *testing.B) {
	for _, size := range []struct {
		preset       string
		vocab, batch int
	}{{"tiny", 2000, 48}, {"tiny", 2000, 96}, {"small", 8000, 16}} {
		for _, precision := range []torch.DType{torch.Float32, torch.BFloat16} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/batch=%d/%s/threads=%d", size.preset, size.batch, precision, threads), func(b *testing.B) {
					benchmarkStep(b, size.preset, size.vocab, size.batch, threads, precision)
				})
			}
		}
	}
}

func BenchmarkEncoder(b *testing.B) {
	for _, preset := range model.PresetNames() {
		for _, precision := range []torch.DType{torch.Float32, torch.BFloat16} {
			b.Run(fmt.Sprintf("%s/%s", preset, precision), func(b *testing.B) { benchmarkEncoder(b, preset, precision) })
		}
	}
}

func benchmarkEncoder(b *testing.B, preset string, precision torch.DType) {
	c := must.Get(model.Preset(preset, len(smallVocab())))(b)
	w := preciseWorker(b, 2, precision)
	e := must.Get(model.NewEncoder(context.Background(), frozen(b, newModel(b, w, c, 3), w), model.DefaultBatchSize))(b)
	r := rng.New(3, "encoder benchmark")
	pixels := noisePixels(r, model.DefaultBatchSize*e.Preprocessing().Values())
	captions := make([]string, model.DefaultBatchSize)
	for i := range captions {
		captions[i] = caption(r)
	}
	for b.Loop() {
		must.Get(e.EncodeImages(context.Background(), pixels, len(captions)))(b)
		must.Get(e.EncodeTexts(context.Background(), captions))(b)
	}
	b.ReportMetric(float64(len(captions))*float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}
