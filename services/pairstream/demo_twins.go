//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math/rand/v2"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/twins"
	"github.com/pairstream/pairstream/schemas"
)

// twinSide is what the shorter side of a photograph is reduced to before its twins are made: no less, and less than twice
// that. Models of the demo see fewer pixels.
const twinSide = 96

// knowledge tells what is true of pictures. The pipeline does not have it.
type knowledge struct {
	fits func(image schemas.ImageID, caption string) bool
	says string // what a caption that fits is of its picture
	held bool   // it also knows about the pictures that are held out
}

// multiply publishes every caption of a photograph with a twin of its own, if the photographs have two captions or more on
// average. The other captions of a photograph are then false negatives that are known. What cannot be decoded, and what has
// one caption, is published as it is.
func (d *demo) multiply(ctx context.Context) error {
	if d.train.Pairs() < 2*d.train.Images() {
		return nil
	}
	held := map[schemas.ImageID]bool{}
	for i := range d.held.Images() {
		_, id := d.held.Image(i)
		held[id] = true
	}
	draws, numbers := rng.New(1, "demo.twins"), map[schemas.ImageID]int{}
	w := twins.New(d.dir)
	w.Folder("twins")
	_, err := shard.Scan(ctx, []string{d.data}, shard.Visitor{
		Example: func(ex shard.Example) error {
			if _, known := numbers[ex.ImageID]; held[ex.ImageID] || known {
				return nil
			}
			numbers[ex.ImageID] = len(numbers)
			return addTwins(w, numbers[ex.ImageID], ex, draws)
		},
		Problem: func(shard.Problem) error { return nil }, // counted when the pairs were read
	})
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("making twins of photographs: %w", err)
	}
	d.source = filepath.Join(d.dir, "twins")
	if d.train, _, err = dataset.Read(ctx, []string{d.source}, 0); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%d captions of %d photographs are published, those of one photograph each with a crop of its own\n"+
		"  the other captions of a photograph are false negatives that the demo knows, and the pipeline does not\n", d.train.Pairs(), len(numbers))
	d.known = &knowledge{fits: w.Fits, says: "of the same photograph"}
	return nil
}

// addTwins writes the twins of one photograph.
func addTwins(w *twins.Writer, number int, ex shard.Example, draws *rand.Rand) error {
	if len(ex.Captions) == 1 {
		w.Add(number, ex.Encoded, ex.Captions...)
		return nil
	}
	im, err := imaging.DecodeShrunk(ex.Encoded, twinSide)
	if err != nil {
		w.Add(number, ex.Encoded, ex.Captions...)
		return nil //nolint:nilerr // the encoder sets it aside and says why
	}
	rgba := image.NewRGBA(image.Rect(0, 0, im.W, im.H))
	for i := range im.W * im.H {
		copy(rgba.Pix[4*i:], im.Pix[3*i:3*i+3])
		rgba.Pix[4*i+3] = 0xff
	}
	for _, caption := range ex.Captions {
		encoded, err := twins.Crop(rgba, draws)
		if err != nil {
			return err
		}
		w.Add(number, encoded, caption)
	}
	return nil
}
