package imaging_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// FuzzDecode holds that any bytes give either an image of the declared size or one of the two errors.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/blocks*")
	if err != nil || len(files) < 10 {
		f.Fatalf("seed corpus: %d files, %v", len(files), err)
	}
	for _, name := range files {
		b := must.Get(os.ReadFile(name))(f)
		f.Add(b)
		f.Add(b[:len(b)*2/3])
	}
	f.Add(pngHeader(60_000, 60_000))
	f.Add(webpHeader(60_000, 60_000, 8, 8))
	f.Add(webpHeader(8, 8, 16_384, 16_384))
	f.Add(jpegHeader(f, 60_000, 60_000))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		h, headErr := imaging.ReadHeader(encoded)
		if headErr == nil && int64(h.Width)*int64(h.Height) > 1<<20 {
			return // right, but too slow to decode by the thousand
		}
		im, err := imaging.DecodeShrunk(encoded, 16)
		switch {
		case err == nil && headErr != nil:
			t.Fatalf("decoded what the header check refuses: %v", headErr)
		case err == nil && (im.W <= 0 || im.H <= 0 || len(im.Pix) != 3*im.W*im.H):
			t.Fatalf("%d x %d with %d bytes", im.W, im.H, len(im.Pix))
		case err != nil && im != nil:
			t.Fatal("both an image and an error")
		case err != nil && !errors.Is(err, imaging.ErrNotImage) && !errors.Is(err, imaging.ErrTooLarge):
			t.Fatalf("an error of neither kind: %v", err)
		}
	})
}
