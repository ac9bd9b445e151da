package model_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func testModel(t *testing.T) *model.Model {
	t.Helper()
	before := torch.Live()
	w := must.Get(torch.NewWorker(torchtest.On(torch.WorkerOptions{Threads: 2, Deterministic: true})))(t)
	t.Cleanup(func() {
		w.Close()
		if n := torch.Live() - before; n != 0 {
			t.Errorf("%d tensors were not given back", n)
		}
	})
	m := must.Get(model.New(context.Background(), w, model.Config{
		ImageSize: 32, PatchSize: 16, VisionDim: 32, VisionDepth: 1, VisionHeads: 2,
		TextHidden: 32, TextLayers: 3, FusionLayer: 1, TextHeads: 2, TextIntermediate: 64,
		VocabSize: 40, MaxPositions: 6, EmbedDim: 16, TextTokens: 6,
	}, 7))(t)
	t.Cleanup(m.Free)
	return m
}

func TestTexts(t *testing.T) {
	m := testModel(t)
	must.Do(t, m.Worker().Do(context.Background(), func(s *torch.Scope) error {
		ids, mask, err := model.Texts(s, [][]int32{{1, 7}, {1, 8, 9, 2}, {1}}, 5, m.Config)
		if err != nil {
			return err
		}
		length := int64(4)
		if s.LengthStep() > 1 {
			length = 6 // the longest that the model takes
		}
		var wantIDs, wantMask []int64
		for _, text := range [][]int64{{1, 7}, {1, 8, 9, 2}, {1}} {
			padding := int(length) - len(text)
			wantIDs = slices.Concat(wantIDs, text, slices.Repeat([]int64{5}, padding))
			wantMask = slices.Concat(wantMask, slices.Repeat([]int64{1}, len(text)), make([]int64, padding))
		}
		if !slices.Equal(ids.Int64s(), wantIDs) || !slices.Equal(ids.Shape(), []int64{3, length}) {
			t.Errorf("ids %v of shape %v, want %v", ids.Int64s(), ids.Shape(), wantIDs)
		}
		if !slices.Equal(mask.Int64s(), wantMask) {
			t.Errorf("mask %v, want %v", mask.Int64s(), wantMask)
		}
		return nil
	}))
}

func TestInputsThatDoNotFit(t *testing.T) {
	m := testModel(t)
	must.Do(t, m.Worker().Do(context.Background(), func(s *torch.Scope) error {
		for name, rows := range map[string][][]int32{
			"no texts": {}, "an empty text": {{1}, {}}, "an id too large": {{40}}, "a negative id": {{-1}}, "too long": {{1, 1, 1, 1, 1, 1, 1}},
		} {
			if _, _, err := model.Texts(s, rows, 0, m.Config); !errors.Is(err, model.ErrInput) {
				t.Errorf("%s: error %v", name, err)
			}
		}
		for _, n := range []int{0, 1, 3} {
			if _, err := model.Images(s, make([]float32, 2*3*32*32), n, m); !errors.Is(err, model.ErrInput) {
				t.Errorf("two images taken for %d: error %v", n, err)
			}
		}
		return nil
	}))
}

// Scores of pairs in parts equal those of the plain forward pass of each pair.
func TestScore(t *testing.T) {
	m := testModel(t)
	r := rng.New(1, "input")
	pixels := make([]float32, 3*3*32*32)
	for i := range pixels {
		pixels[i] = float32(r.NormFloat64())
	}
	rows := [][]int32{{1, 7, 2}, {1, 8, 9, 10, 2}}
	pairs := []model.Pair{{2, 1}, {0, 0}, {0, 1}, {2, 1}, {1, 0}}
	must.Do(t, m.Worker().Do(context.Background(), func(s *torch.Scope) error {
		images, err := model.Images(s, pixels, 3, m)
		if err != nil {
			return err
		}
		ids, mask, err := model.Texts(s, rows, 0, m.Config)
		if err != nil {
			return err
		}
		e := model.Encoded{Hidden: m.Text(s, ids, mask), Mask: mask, Tokens: m.Image(s, images)}
		got, err := model.Score(s, m, e, pairs, 2)
		if err != nil {
			return err
		}
		for i, p := range pairs {
			fused := m.Fuse(s, s.Narrow(e.Hidden, 0, int64(p.Text), 1), s.Narrow(mask, 0, int64(p.Text), 1), s.Narrow(e.Tokens, 0, int64(p.Image), 1))
			want := m.MatchLogits(s, fused).Float32s()
			if math.Abs(float64(got[i].Mismatch-want[0])) > 1e-5 || math.Abs(float64(got[i].Match-want[1])) > 1e-5 {
				t.Errorf("pair %v: %v, want %v", p, got[i], want)
			}
		}
		none, err := model.Score(s, m, e, nil, 2)
		if err != nil || len(none) != 0 {
			t.Errorf("no pairs: %v, %v", none, err)
		}
		return nil
	}))
}

func TestProbability(t *testing.T) {
	for l, want := range map[model.Logits]float64{{0, 0}: 0.5, {1, 3}: 0.8807970779778823, {900, -900}: 0, {-900, 900}: 1} {
		if got := float64(l.Probability()); math.Abs(got-want) > 1e-7 {
			t.Errorf("%v is %v, want %v", l, got, want)
		}
	}
}
