package duplicates

import (
	"bytes"
	"context"
	"image"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// A crop keeps 85 to 95 % of either side, whatever the shape, down to a single pixel.
func TestCrop(t *testing.T) {
	draws, seen := rand.New(rand.NewPCG(1, 2)), map[image.Point]bool{}
	for range 40 {
		encoded := must.Get(Crop(image.NewRGBA(image.Rect(10, 20, 210, 120)), draws))(t)
		c, format, err := image.DecodeConfig(bytes.NewReader(encoded))
		if err != nil || format != "jpeg" || c.Width < 170 || c.Width > 190 || c.Height < 85 || c.Height > 95 {
			t.Fatalf("a twin of 200x100 is a %s of %dx%d, %v", format, c.Width, c.Height, err)
		}
		seen[image.Pt(c.Width, c.Height)] = true
	}
	if len(seen) < 5 {
		t.Errorf("40 twins have %d sizes", len(seen))
	}
	if _, err := Crop(image.NewRGBA(image.Rect(0, 0, 1, 1)), draws); err != nil {
		t.Errorf("a twin of one pixel: %v", err)
	}
}

// Twins fit all captions of their original, and nothing else does.
func TestWriter(t *testing.T) {
	dir := t.TempDir()
	w := New(dir)
	w.Folder("held")
	w.Add(0, []byte("zero"), "a cat", "a grey cat")
	w.Folder("twins")
	w.Add(1, []byte("one"), "a dog")
	w.Add(1, []byte("uno"), "a brown dog")
	w.Add(2, []byte("two"), "a cat")
	must.Do(t, w.Close())
	if got := w.Folders(); len(got) != 2 || got[1] != filepath.Join(dir, "twins") {
		t.Fatalf("folders %v", got)
	}
	read := map[schemas.ImageID]string{}
	_, err := shard.Scan(context.Background(), w.Folders(), shard.Visitor{
		Example: func(ex shard.Example) error { read[ex.ImageID] = string(ex.Encoded); return nil },
		Problem: func(p shard.Problem) error { t.Errorf("problem %s", p); return nil },
	})
	if err != nil || len(read) != 4 {
		t.Fatalf("read %d images, want 4: %v", len(read), err)
	}
	fits := map[string]string{
		"zero": "a cat,a grey cat", "one": "a dog,a brown dog", "uno": "a dog,a brown dog", "two": "a cat", "unknown": "",
	}
	for name, want := range fits {
		got := ""
		for _, c := range []string{"a cat", "a grey cat", "a dog", "a brown dog", "a bird"} {
			if w.Fits(schemas.NewImageID([]byte(name)), c) {
				if got != "" {
					got += ","
				}
				got += c
			}
		}
		if got != want {
			t.Errorf("%q fits %q, want %q", name, got, want)
		}
	}
}

// The first error is the one that Close returns; what is added after it is left out.
func TestWriterKeepsItsError(t *testing.T) {
	w := New(filepath.Join(t.TempDir(), "file\x00"))
	w.Folder("twins")
	w.Add(1, []byte("one"), "a dog")
	if err := w.Close(); err == nil {
		t.Error("no error of a folder that cannot be made")
	}
}
