package model_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// Encodings that were made beside others, in another order and alone, are the same bits, and so are their matches.
// These are those of [model.Matcher.Match] but for the rounding to float16.
func TestEncodingsAreTheSameBits(t *testing.T) {
	m := testModel(t)
	m.Vocab = make([]string, m.Config.VocabSize)
	m.Vocab[0] = "[PAD]"
	m.Calibration = &model.Calibration{Differences: []float64{-2, 2}, Probabilities: []float64{0.01, 0.6}}
	matcher := must.Get(model.NewMatcher(context.Background(), m))(t)
	const n = 19 // more than a block
	r := rng.New(5, "encodings")
	values := 3 * m.Config.ImageSize * m.Config.ImageSize
	pixels := make([]float32, n*values)
	for i := range pixels {
		pixels[i] = float32(r.NormFloat64())
	}
	var ids [][]int32
	var pairs []model.Pair
	for i := range int32(n) {
		row := []int32{1}
		for range 1 + r.IntN(m.Config.TextTokens-1) {
			row = append(row, int32(1+r.IntN(m.Config.VocabSize-1)))
		}
		ids = append(ids, row)
		pairs = append(pairs, model.Pair{Image: i, Text: (i + 3) % n})
	}
	ctx := t.Context()
	images := must.Get(matcher.EncodeImages(ctx, pixels))(t)
	texts := must.Get(matcher.EncodeTexts(ctx, ids))(t)
	got := must.Get(matcher.MatchEncoded(ctx, images, texts, pairs, 4))(t)
	want := must.Get(matcher.Match(ctx, pixels, ids, pairs, 16))(t)
	for i := range pairs {
		if math.Abs(float64(got[i]-want[i])) > 1e-3 {
			t.Errorf("pair %d: %v, want about %v", i, got[i], want[i])
		}
	}
	for _, i := range []int{0, 7, 18} {
		image := must.Get(matcher.EncodeImages(ctx, pixels[i*values:(i+1)*values]))(t)
		text := must.Get(matcher.EncodeTexts(ctx, ids[(i+3)%n:(i+3)%n+1]))(t)
		other := texts[(i+3)%n]
		if !sameTokens(image[0].Tokens, images[i].Tokens) || !torchtest.AllSame(image[0].Vector, images[i].Vector) ||
			!sameTokens(text[0].Tokens, other.Tokens) || !torchtest.AllSame(text[0].Vector, other.Vector) {
			t.Errorf("image or text of pair %d has other bits alone", i)
		}
		alone, err := matcher.MatchEncoded(ctx, image, text, []model.Pair{{}}, 4)
		if err != nil || !torchtest.Same(alone[0], got[i]) {
			t.Errorf("pair %d alone has %v (%v), want %v", i, alone, err, got[i])
		}
	}
	if _, err := matcher.EncodeImages(ctx, pixels[1:]); !errors.Is(err, model.ErrInput) {
		t.Errorf("an image without a pixel: %v", err)
	}
	if _, err := matcher.EncodeTexts(ctx, [][]int32{make([]int32, m.Config.TextTokens+1)}); !errors.Is(err, model.ErrInput) {
		t.Errorf("a long text: %v", err)
	}
}

// sameTokens reports whether float16 values are equal; of libtorch's operations, or neighbours.
func sameTokens(a, b []uint16) bool {
	return slices.EqualFunc(a, b, func(x, y uint16) bool { return x == y || !torchtest.OnCPU() && (x-y == 1 || y-x == 1) })
}
