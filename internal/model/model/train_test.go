package model_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// train takes some steps and returns the losses.
func train(t testing.TB, w *torch.Worker, m *model.Model, batch batchOf, steps int) (losses []float64) {
	t.Helper()
	var params []*torch.Tensor
	for _, p := range m.Params() {
		params = append(params, p.Tensor)
	}
	var optimiser *torch.AdamW
	must.Do(t, w.Do(context.Background(), func(*torch.Scope) (err error) {
		optimiser, err = torch.NewAdamW(params, make([]bool, len(params)), torch.DefaultAdamW)
		return err
	}))
	defer optimiser.Free()
	for range steps {
		must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
			if err := optimiser.ZeroGrad(); err != nil {
				return err
			}
			loss := step(s, m, batch)
			losses = append(losses, loss.Item())
			s.Backward(loss)
			return optimiser.Step(1e-3)
		}))
	}
	return losses
}

func TestTrainingLearnsAndRepeatsItself(t *testing.T) {
	batch := newBatch(smallConfig(), 6)
	run := func(threads int) (string, []float64) {
		w := workerOf(t, threads)
		m := newModel(t, w, smallConfig(), 7)
		losses := train(t, w, m, batch, 12)
		return fingerprint(t, m), losses
	}
	name, losses := run(2)
	if first, last := losses[0], losses[len(losses)-1]; !(last < 0.8*first) {
		t.Errorf("losses %v", losses)
	}
	for _, threads := range []int{2, 1, 3} {
		again, other := run(threads)
		if again != name || !slices.Equal(other, losses) {
			t.Errorf("with %d threads: weights %s after %v, want %s after %v", threads, again, other, name, losses)
		}
	}
}

// This test checks invariant 1: the values that a seed draws for a tensor.
func TestInitialWeights(t *testing.T) {
	w := worker(t)
	values := func(c model.Config, seed uint64) map[string][]float32 {
		t.Helper()
		m := newModel(t, w, c, seed)
		tensors := must.Get(m.Export(context.Background()))(t)
		all := map[string][]float32{}
		for _, x := range tensors {
			v := must.Get(x.Float32s())(t)
			all[x.Name] = v
		}
		return all
	}
	base := values(smallConfig(), 7)
	for name, v := range values(smallConfig(), 7) {
		if !slices.Equal(v, base[name]) {
			t.Errorf("the same seed draws other values for %s", name)
		}
	}
	larger := smallConfig()
	larger.VisionDepth, larger.TextLayers, larger.ImageSize = 3, 5, 40
	for name, v := range values(larger, 7) {
		if before, ok := base[name]; ok && len(before) == len(v) && !slices.Equal(v, before) {
			t.Errorf("a change elsewhere changes %s", name)
		}
	}
	other := values(smallConfig(), 8)
	for name, deviation := range map[string]float64{
		"visual_encoder.blocks.0.attn.qkv.weight":                          0.0176, // of a normal one cut at twice its deviation
		"text_encoder.bert.encoder.layer.2.crossattention.self.key.weight": 0.02,
		"text_proj.weight": 1 / math.Sqrt(3*28),
	} {
		if slices.Equal(other[name], base[name]) {
			t.Errorf("another seed draws the same values for %s", name)
		}
		sum := 0.0
		for _, v := range base[name] {
			sum += float64(v) * float64(v)
		}
		if got := math.Sqrt(sum / float64(len(base[name]))); math.Abs(got/deviation-1) > 0.1 {
			t.Errorf("%s has deviation %v, want %v", name, got, deviation)
		}
	}
	if base["temp"][0] != 0.07 || base["visual_encoder.norm.weight"][0] != 1 || base["itm_head.bias"][0] != 0 {
		t.Error("a constant starts elsewhere")
	}
}

// The methods that save work compute what the plain ones do.
func TestShortcuts(t *testing.T) {
	w := worker(t)
	c := smallConfig()
	m := newModel(t, w, c, 3)
	b := newBatch(c, 4)
	textIndex, imageIndex := []int64{0, 1, 2, 3, 0, 2}, []int64{0, 1, 2, 3, 3, 1}
	must.Do(t, w.Do(context.Background(), func(s *torch.Scope) error {
		ids, mask := s.Int64s(b.ids, 4, int64(c.TextTokens)), s.Int64s(b.mask, 4, int64(c.TextTokens))
		images := m.Image(s, s.Float32s(b.pixels, 4, 3, int64(c.ImageSize), int64(c.ImageSize)))
		texts := m.Text(s, ids, mask)
		pick := func(x *torch.Tensor, index []int64) *torch.Tensor {
			return s.IndexSelect(x, 0, s.Int64s(index, int64(len(index))))
		}
		plain := m.MatchLogits(s, m.Fuse(s, pick(texts, textIndex), pick(mask, textIndex), pick(images, imageIndex)))
		short := m.MatchPairs(s, texts, mask, m.View(s, images), textIndex, imageIndex)
		golden.Close(t, "match", short.Float64s(), plain.Float64s(), 1e-5, 0)

		all := s.Reshape(m.MaskedLogits(s, ids, mask, images), -1, int64(c.VocabSize))
		golden.Close(t, "masked", m.MaskedLogitsAt(s, ids, mask, m.View(s, images), b.positions).Float64s(),
			pick(all, b.positions).Float64s(), 1e-5, 0)
		return nil
	}))
}

func TestTemperatureIsBroughtBack(t *testing.T) {
	w := worker(t)
	m := newModel(t, w, smallConfig(), 1)
	for _, p := range m.Params() {
		if p.Name != "temp" {
			continue
		}
		for _, test := range [][2]float64{{0.07, 0.07}, {-1, 0.001}, {0.001, 0.001}, {0.5, 0.5}, {0.6, 0.5}} {
			must.Check(t, w.Do(context.Background(), func(s *torch.Scope) error {
				p.Tensor.SetFloat64s([]float64{test[0]})
				p.Tensor.ZeroGrad()
				x := m.Temperature(s)
				if math.Abs(x.Item()-test[1]) > 1e-9 || math.Abs(p.Tensor.Item()-test[1]) > 1e-7 {
					return fmt.Errorf("%v becomes %v, and the weight %v", test[0], x.Item(), p.Tensor.Item())
				}
				s.Backward(s.MulScalar(x, 3))
				if g := s.Grad(p.Tensor).Item(); g != 3 {
					return fmt.Errorf("the gradient at %v is %v", test[0], g)
				}
				return nil
			}))
		}
	}
}
