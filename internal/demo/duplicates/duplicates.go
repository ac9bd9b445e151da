// Package duplicates makes pairs whose false negatives are known.
//
// It takes images with several captions, and writes tars in which every caption has its own image: a newly encoded crop
// of the first one. Ids of images are hashes of their bytes, so a pipeline cannot tell that the crops show the same.
// The other captions of an image are then false negatives, and [Writer.Fits] knows them.
//
// The same images with the same draws give the same bytes. A Writer is for one goroutine.
package duplicates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Crop returns a near-duplicate of an image: a crop of 85 to 95 % of either side, as JPEG of quality 75 to 95.
func Crop(im image.Image, draws *rand.Rand) ([]byte, error) {
	share := 0.85 + 0.1*draws.Float64()
	from := im.Bounds()
	w, h := max(int(share*float64(from.Dx())), 1), max(int(share*float64(from.Dy())), 1)
	at := image.Pt(from.Min.X+draws.IntN(from.Dx()-w+1), from.Min.Y+draws.IntN(from.Dy()-h+1))
	crop := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(crop, crop.Bounds(), im, at, draw.Src)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, crop, &jpeg.Options{Quality: 75 + draws.IntN(21)}); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return b.Bytes(), nil
}

// Writer writes images into folders of tars, and remembers the original of each.
type Writer struct {
	dir   string
	names []string
	tars  *shard.DirWriter // of the last folder
	err   error            // the first one
	added int
	fits  map[string][]int        // originals of a caption
	shows map[schemas.ImageID]int // original of an image
}

// New returns a writer of folders in dir.
func New(dir string) *Writer {
	return &Writer{dir: dir, fits: map[string][]int{}, shows: map[schemas.ImageID]int{}}
}

// Folder begins a folder of tars.
func (w *Writer) Folder(name string) {
	if err := w.Close(); err != nil {
		return
	}
	w.names = append(w.names, filepath.Join(w.dir, name))
	w.tars, w.err = shard.NewDirWriter(w.names[len(w.names)-1], 1000)
}

// Folders returns the paths of all folders.
func (w *Writer) Folders() []string { return w.names }

// Add writes an image with its captions. It shows the original with that number. Close returns the errors.
func (w *Writer) Add(original int, encoded []byte, captions ...string) {
	if w.err != nil {
		return
	}
	for _, c := range captions {
		if !slices.Contains(w.fits[c], original) {
			w.fits[c] = append(w.fits[c], original)
		}
	}
	w.shows[schemas.NewImageID(encoded)] = original
	meta, err := json.Marshal(map[string]any{"captions": captions})
	if err != nil {
		w.err = err
		return
	}
	w.err = w.tars.Write(fmt.Sprintf("%08d", w.added), shard.File{Ext: "jpg", Data: encoded}, shard.File{Ext: "json", Data: meta})
	w.added++
}

// Fits reports whether a caption was given to an image or to one of its near-duplicates.
func (w *Writer) Fits(image schemas.ImageID, caption string) bool {
	original, known := w.shows[image]
	return known && slices.Contains(w.fits[caption], original)
}

// Close completes the open folder and returns the first error of all.
func (w *Writer) Close() error {
	if w.tars != nil && w.err == nil {
		w.err, w.tars = w.tars.Close(), nil
	}
	return errors.Join(w.err, w.Abort())
}

// Abort leaves the open folder incomplete.
func (w *Writer) Abort() error {
	if w.tars == nil {
		return nil
	}
	tars := w.tars
	w.tars = nil
	return tars.Abort()
}
