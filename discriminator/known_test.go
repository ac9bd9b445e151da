package discriminator

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/schemas"
)

// imagesOf is a batch whose samples show the given images.
func imagesOf(images ...byte) *schemas.Batch {
	b := &schemas.Batch{Batches: 1}
	for _, i := range images {
		b.Samples = append(b.Samples, schemas.Sample{ImageID: schemas.ImageID{i}})
	}
	return b
}

func TestKnownPairs(t *testing.T) {
	own := func(i int32) model.Pair { return model.Pair{Image: i, Text: i} }
	for name, c := range map[string]struct {
		images []byte
		masks  []schemas.Mask
		want   []model.Pair // sorted
	}{
		"three images": {[]byte{1, 2, 3}, nil, []model.Pair{own(0), {Image: 0, Text: 1}, {Image: 0, Text: 2}, {Image: 1, Text: 0}, own(1), {Image: 1, Text: 2}, {Image: 2, Text: 0}, {Image: 2, Text: 1}, own(2)}},
		"two images":   {[]byte{1, 2}, nil, []model.Pair{own(0), {Image: 0, Text: 1}, {Image: 1, Text: 0}, own(1)}},
		"one image":    {[]byte{1, 1}, nil, nil},
		"a partner":    {[]byte{1, 1, 2}, nil, []model.Pair{own(0), {Image: 0, Text: 2}, own(1), {Image: 1, Text: 2}, {Image: 2, Text: 0}, {Image: 2, Text: 1}, own(2)}},
		"a masked sample": {
			[]byte{1, 2, 3},
			[]schemas.Mask{{Sample: 0, Positive: true}, {Sample: 1}},
			[]model.Pair{own(0), {Image: 0, Text: 2}, {Image: 2, Text: 0}, own(2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := knownPairs(imagesOf(c.images...), c.masks, rng.New(1, "test"))
			slices.SortFunc(got, func(a, b model.Pair) int { return int(a.Image-b.Image)*100 + int(a.Text-b.Text) })
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	drawn := map[model.Pair]bool{}
	for seed := range uint64(40) {
		pairs := knownPairs(imagesOf(1, 2, 3, 4, 5), nil, rng.New(seed, "test"))
		if len(pairs) != 15 {
			t.Fatalf("%d pairs, want each text with its image and two others", len(pairs))
		}
		for _, p := range pairs {
			drawn[p] = true
		}
	}
	if len(drawn) != 25 {
		t.Errorf("of 25 pairs %d were ever drawn", len(drawn))
	}
}

// Known gives the pairs the probabilities that Score gives them, and the same ones again.
func TestKnownAsksConD(t *testing.T) {
	const n = 5
	d, in := newConD(t, 16), randomInput(n)
	b := allCandidates(n)
	for i := range b.Samples {
		b.Samples[i].ImageID = schemas.ImageID{byte(i + 1)}
	}
	draws := func() []model.Pair { return knownPairs(b, nil, rng.New(1, "test")) }
	k, err := d.Known(context.Background(), b, in, rng.New(1, "test"))
	if err != nil || len(k.Positives) != n || len(k.Mismatches) != 2*n {
		t.Fatalf("%d positives and %d mismatches, %v", len(k.Positives), len(k.Mismatches), err)
	}
	scored := score(t, d, b, in)
	at := 0
	for _, p := range draws() {
		if p.Image == p.Text {
			continue
		}
		for c := range n - 1 {
			if place := int(p.Image)*(n-1) + c; scored.I2T[place] == p.Text && scored.ProbI2T[place] != k.Mismatches[at] {
				t.Errorf("pair %v: %v, scored %v", p, k.Mismatches[at], scored.ProbI2T[place])
			}
		}
		at++
	}
	again, err := d.Known(context.Background(), b, in, rng.New(1, "test"))
	if err != nil || !slices.Equal(again.Positives, k.Positives) || !slices.Equal(again.Mismatches, k.Mismatches) {
		t.Errorf("asked again, Con-D says something else (%v)", err)
	}
	if _, err := d.Known(context.Background(), b, Input{}, rng.New(1, "test")); !errors.Is(err, model.ErrInput) {
		t.Errorf("without texts: %v", err)
	}
}

func TestAUCOfKnown(t *testing.T) {
	k := Known{Positives: []float32{0.9, 0.3}, Mismatches: []float32{0.5, 0.1}}
	if got := k.AUC(); got != 0.75 {
		t.Errorf("one of four in the wrong order: %v", got)
	}
	k.Add(Known{Mismatches: []float32{0.9, 0.3}}) // of eight comparisons four are right, and two are ties
	if got := k.AUC(); got != 0.625 {
		t.Errorf("after more mismatches: %v", got)
	}
	if got := (Known{}).AUC(); got != 0.5 {
		t.Errorf("of nothing: %v", got)
	}
}
