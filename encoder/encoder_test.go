package encoder_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// angleModel embeds an image by its first pixel and a caption by its length, as angles on the unit circle.
type angleModel struct{ fault error }

func (m angleModel) EncodeImages(_ context.Context, pixels []byte, n int) ([]float32, error) {
	var out []float32
	for i := range n {
		out = append(out, circle(float64(pixels[i*12]))...)
	}
	return out, m.fault
}

func (angleModel) EncodeTexts(_ context.Context, captions []string) ([]float32, error) {
	var out []float32
	for _, c := range captions {
		out = append(out, circle(float64(len(c)))...)
	}
	return out, nil
}

func (angleModel) Dim() int            { return 2 }
func (angleModel) ImageSize() int      { return 2 }
func (angleModel) Fingerprint() string { return "angle" }

func circle(a float64) []float32 { return []float32{float32(math.Cos(a)), float32(math.Sin(a))} }

// firstByte gives the image id's first byte as every pixel; ids listed in bad fail as told.
type firstByte map[byte]error

func (f firstByte) Load(_ context.Context, p *schemas.Pair, _ encoder.Wanted, dst []byte) (encoder.Loaded, error) {
	if err := f[p.ImageID[0]]; err != nil {
		return encoder.Loaded{}, err
	}
	for i := range dst {
		dst[i] = p.ImageID[0]
	}
	return encoder.Loaded{Ref: *p.Image}, nil
}

func somePairs(n int) []*schemas.Pair {
	pairs := make([]*schemas.Pair, n)
	for i := range pairs {
		p := &schemas.Pair{
			ImageID: schemas.ImageID{byte(i)}, Caption: fmt.Sprintf("caption %d", i*i*i),
			Image: &schemas.ImageRef{URI: "file:///a.tar", Offset: int64(512 * i), Size: 100},
		}
		p.ID = schemas.NewPairID(p.ImageID, p.Caption)
		pairs[i] = p
	}
	return pairs
}

func newEncoder(t *testing.T, m encoder.Model, images encoder.Images) *encoder.Encoder {
	t.Helper()
	e := must.Get(encoder.New(m, images, encoder.Options{BatchSize: 4, Workers: 3}))(t)
	return e
}

func TestEncodeKeepsOrderAndPassesOverUnusableImages(t *testing.T) {
	gone := fmt.Errorf("%w: no such object", encoder.ErrUnusable)
	e := newEncoder(t, angleModel{}, firstByte{0: gone, 3: gone, 6: gone})
	pairs := somePairs(7)
	results := must.Get(e.Encode(t.Context(), pairs, nil))(t)
	for i, r := range results {
		if i%3 == 0 {
			if r.Embedding != nil || !errors.Is(r.Unusable, encoder.ErrUnusable) {
				t.Errorf("pair %d: got %+v, want an unusable image", i, r)
			}
			continue
		}
		if r.Unusable != nil || r.Embedding == nil {
			t.Fatalf("pair %d: got %+v, want an embedding", i, r)
		}
		if err := r.Embedding.Validate(); err != nil {
			t.Errorf("pair %d: %v", i, err)
		}
		if r.Embedding.ID != pairs[i].ID || r.Embedding.Image != *pairs[i].Image || r.Embedding.Model != "angle" {
			t.Errorf("pair %d: embedding of %s at %v by %s", i, r.Embedding.ID, r.Embedding.Image, r.Embedding.Model)
		}
		want := math.Cos(float64(i) - float64(len(pairs[i].Caption)))
		if got := float64(r.Embedding.Similarity); math.Abs(got-want) > 2e-3 {
			t.Errorf("pair %d: similarity %g, want %g", i, got, want)
		}
	}
}

func TestEncodeOfOnlyUnusableImagesCallsNoModel(t *testing.T) {
	e := newEncoder(t, angleModel{fault: errors.New("the model was called")}, firstByte{0: encoder.ErrUnusable})
	results, err := e.Encode(t.Context(), somePairs(1), nil)
	if err != nil || results[0].Unusable == nil {
		t.Fatalf("got %+v, %v; want one unusable image", results, err)
	}
}

func TestEncodeReportsPassingFaults(t *testing.T) {
	down := errors.New("bucket out of reach")
	for name, e := range map[string]*encoder.Encoder{
		"images": newEncoder(t, angleModel{}, firstByte{2: down}),
		"model":  newEncoder(t, angleModel{fault: down}, firstByte{}),
	} {
		if results, err := e.Encode(t.Context(), somePairs(5), nil); !errors.Is(err, down) || results != nil {
			t.Errorf("%s: got %v, %v; want the fault", name, results, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := encoder.New(angleModel{}, firstByte{}, encoder.Options{}); err == nil {
		t.Error("a batch of 0 pairs and 0 workers was accepted")
	}
}
