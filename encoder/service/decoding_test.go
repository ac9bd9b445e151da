package service

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/encoder"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// watcher is a model that keeps the pixels of its last call.
type watcher struct{ pixels []byte }

func (w *watcher) EncodeImages(_ context.Context, pixels []byte, n int) ([]float32, error) {
	w.pixels = bytes.Clone(pixels)
	return unitRows(n), nil
}

func (w *watcher) EncodeTexts(_ context.Context, captions []string) ([]float32, error) {
	return unitRows(len(captions)), nil
}
func (w *watcher) Dim() int            { return 2 }
func (w *watcher) ImageSize() int      { return 32 }
func (w *watcher) Fingerprint() string { return "weights" }

func unitRows(n int) (rows []float32) {
	for range n {
		rows = append(rows, 1, 0)
	}
	return rows
}

// photograph has detail that a scaling decoder leaves out.
func photograph(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 160, 160))
	for i := range 160 * 160 {
		x, y := i%160, i/160
		m.Set(x, y, color.RGBA{byte(x * y), byte(3 * x), byte(x ^ y), 255})
	}
	var encoded bytes.Buffer
	must.Do(t, jpeg.Encode(&encoded, m, nil))
	return encoded.Bytes()
}

// What changes vectors is in the model's name that embeddings carry: the indexer closes a group where it changes, and
// a manifest lists it.
func TestDecodingIsPartOfTheModelThatEmbeddingsName(t *testing.T) {
	dir, encoded := t.TempDir(), photograph(t)
	path := filepath.Join(dir, "a.jpg")
	must.Do(t, os.WriteFile(path, encoded, 0o600))
	b := must.Get(shard.OpenBucket(t.Context(), []string{shard.FileURI(dir)}, nil))(t)
	defer b.Close()
	cache := shard.NewImages(b, shard.ImagesOptions{MaxBytes: 1 << 20})
	p := pairOf(1)
	p.Image, p.ImageID = &schemas.ImageRef{URI: shard.FileURI(path), Size: int64(len(encoded))}, schemas.NewImageID(encoded)
	pre := imaging.Preprocess{Size: 32}
	seen, names := map[Decoding][]byte{}, map[Decoding]string{}
	for _, d := range []Decoding{DecodeExact, DecodeScaled, DecodeExact} { // of one cache
		m := &watcher{}
		core := must.Get(newCore(m, pre, cache, d, 4))(t)
		got := must.Get(core.Encode(t.Context(), []*schemas.Pair{p}, func(*schemas.Pair, int, int) error { return nil }))(t)
		seen[d], names[d] = m.pixels, got[0].Embedding.Model

		im := must.Get(imaging.DecodeShrunk(encoded, 64))(t)
		exact := make([]byte, pre.Values())
		pre.Bytes(exact, im)
		if same := bytes.Equal(m.pixels, exact); same != (d == DecodeExact) {
			t.Errorf("DECODE=%s has the pixels of an exact decoder: %t", d, same)
		}
	}
	if bytes.Equal(seen[DecodeExact], seen[DecodeScaled]) {
		t.Error("the picture has the same pixels either way, so this test tells nothing")
	}
	if names[DecodeExact] != "weights" || names[DecodeScaled] != "weights-scaled" {
		t.Errorf("models are named %v", names)
	}
}

var _ encoder.Model = (*watcher)(nil)

func TestDecodeIsASetting(t *testing.T) {
	environ := map[string]string{"ENCODER_CHECKPOINT": "m", "BUCKET_ROOTS": "file:///"}
	if s := must.Get(config.Parse[Settings](environ))(t); s.Decode != DecodeScaled {
		t.Errorf("without DECODE it is %q", s.Decode)
	}
	for value, want := range map[string]string{"exact": "", "scaled": "", "Exact": `DECODE is "Exact", want exact or scaled`, "half": `DECODE is "half"`} {
		environ["DECODE"] = value
		_, err := config.Parse[Settings](environ)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("DECODE=%s: %v, want %q", value, err, want)
		}
	}
}
