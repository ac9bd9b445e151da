package experiments

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	_ "image/png" // generated scenes may stand for photographs
	"math/rand/v2"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// photograph is an image with its captions.
type photograph struct {
	number   int
	encoded  []byte
	captions []string
}

// twinSizes say how photographs are parted.
type twinSizes struct {
	Captions int `json:"captions"` // published of every photograph; those with fewer are left out
	Unseen   int `json:"unseen"`   // photographs that are not published; at most a fifth of all
	Kept     int `json:"kept"`     // published photographs of which one caption is kept back; at most a fifth of all
}

// leastPhotographs is how many photographs are needed for a part of each kind.
const leastPhotographs = 10

// twins are photographs of which every caption is published with an image of its own. The other captions of a photograph
// are then false negatives, known here and not to the pipeline.
type twins struct {
	*data                 // its held pairs are those of photographs that are not published
	seen  *dataset.Corpus // published photographs, each with the caption that was kept back
}

// newTwins writes photographs and their twins into a folder and reads them back. A twin is a crop of 85 to 95 % of either
// side, encoded with a JPEG quality of 75 to 95.
func newTwins(ctx context.Context, dir, photos string, sizes twinSizes, side int, seed uint64) (*twins, error) {
	all, err := readPhotographs(ctx, photos, sizes.Captions)
	if err != nil {
		return nil, err
	}
	if len(all) < leastPhotographs {
		return nil, fmt.Errorf("%s has %d images with %d captions or more, want at least %d", photos, len(all), sizes.Captions, leastPhotographs)
	}
	draws := rng.New(seed, "experiments.twins")
	draws.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	w := twinWriter{dir: dir, fits: map[string][]int{}, shows: map[schemas.ImageID]int{}}
	unseen, kept, last := min(sizes.Unseen, len(all)/5), min(sizes.Kept, len(all)/5), sizes.Captions-1
	w.folder("unseen")
	for _, p := range all[:unseen] {
		w.add(p, p.encoded, p.captions...)
	}
	w.folder("seen")
	for _, p := range all[unseen : unseen+kept] {
		w.add(p, p.encoded, p.captions[last])
	}
	w.folder("twins")
	for i, p := range all[unseen:] {
		if i < kept {
			p.captions = p.captions[:last]
		}
		for _, caption := range p.captions {
			encoded, err := twin(p.encoded, draws)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("image %d of %s: %w", p.number, photos, err), w.abort())
			}
			w.add(p, encoded, caption)
		}
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	return w.read(ctx, side)
}

// readPhotographs reads images with so many captions or more, in the order of the tars.
func readPhotographs(ctx context.Context, photos string, captions int) (all []photograph, err error) {
	_, err = shard.Scan(ctx, []string{photos}, shard.Visitor{
		Example: func(ex shard.Example) error {
			if len(ex.Captions) >= captions {
				all = append(all, photograph{len(all), slices.Clone(ex.Encoded), ex.Captions[:captions]})
			}
			return nil
		},
		Problem: func(shard.Problem) error { return nil }, // an image less
	})
	return all, err
}

// twin returns a crop of an image, encoded anew.
func twin(encoded []byte, draws *rand.Rand) ([]byte, error) {
	im, _, err := image.Decode(bytes.NewReader(encoded))
	if err != nil {
		return nil, fmt.Errorf("decoding: %w", err)
	}
	share := 0.85 + 0.1*draws.Float64()
	from := im.Bounds()
	w, h := int(share*float64(from.Dx())), int(share*float64(from.Dy()))
	at := image.Pt(from.Min.X+draws.IntN(from.Dx()-w+1), from.Min.Y+draws.IntN(from.Dy()-h+1))
	crop := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.Draw(crop, crop.Bounds(), im, at, draw.Src)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, crop, &jpeg.Options{Quality: 75 + draws.IntN(21)}); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return b.Bytes(), nil
}

// twinWriter writes images into folders of tars and knows what they show.
type twinWriter struct {
	dir   string
	names []string
	tars  *shard.DirWriter // of the last folder
	err   error            // the first one
	added int
	fits  map[string][]int        // photographs of a caption
	shows map[schemas.ImageID]int // photograph of an image
}

func (w *twinWriter) folder(name string) {
	if err := w.close(); err != nil {
		return
	}
	w.names = append(w.names, filepath.Join(w.dir, name))
	w.tars, w.err = shard.NewDirWriter(w.names[len(w.names)-1], 1000)
}

func (w *twinWriter) add(p photograph, encoded []byte, captions ...string) {
	if w.err != nil {
		return
	}
	for _, c := range captions {
		if !slices.Contains(w.fits[c], p.number) {
			w.fits[c] = append(w.fits[c], p.number)
		}
	}
	w.shows[schemas.NewImageID(encoded)] = p.number
	meta, err := json.Marshal(map[string]any{"captions": captions})
	if err != nil {
		w.err = err
		return
	}
	w.err = w.tars.Write(fmt.Sprintf("%08d", w.added), shard.File{Ext: "jpg", Data: encoded}, shard.File{Ext: "json", Data: meta})
	w.added++
}

// close completes the open folder and returns the first error of all.
func (w *twinWriter) close() error {
	if w.tars != nil && w.err == nil {
		w.err, w.tars = w.tars.Close(), nil
	}
	return errors.Join(w.err, w.abort())
}

func (w *twinWriter) abort() error {
	if w.tars == nil {
		return nil
	}
	tars := w.tars
	w.tars = nil
	return tars.Abort()
}

// read reads the folders back.
func (w *twinWriter) read(ctx context.Context, side int) (*twins, error) {
	var parts [3]*dataset.Corpus // unseen, seen, twins
	for i, name := range w.names {
		var err error
		if parts[i], _, err = dataset.Read(ctx, []string{name}, 0); err != nil {
			return nil, err
		}
	}
	t := &twins{seen: parts[1], data: &data{held: parts[0], train: parts[2]}}
	_, err := shard.Scan(ctx, w.names[2:], shard.Visitor{
		Example: func(ex shard.Example) error { t.pairs = append(t.pairs, shard.Pairs(ex)...); return nil },
		Problem: func(p shard.Problem) error { return fmt.Errorf("reading twins: %s", p) },
	})
	if err != nil {
		return nil, err
	}
	t.fits = func(id schemas.ImageID, caption string) bool { return slices.Contains(w.fits[caption], w.shows[id]) }
	t.vocab = token.BuildVocab(t.train.Captions, 2000, 2)
	t.images, t.closeImages, err = bootstrap.Images(ctx, w.names, side, 1<<30)
	return t, err
}
