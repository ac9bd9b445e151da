package experiments

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/jpeg" // photographs
	_ "image/png"  // generated scenes may stand for photographs
	"math/rand/v2"
	"slices"

	"github.com/pairstream/pairstream/experiments/towers"
	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/internal/twins"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// photograph is an image with its captions, and a twin for each of them.
type photograph struct {
	number   int
	encoded  []byte
	captions []string
	twins    [][]byte
}

// twinSizes say how photographs are parted.
type twinSizes struct {
	Captions int `json:"captions"` // published of every photograph; those with fewer are left out
	Unseen   int `json:"unseen"`   // photographs that are not published; at most a fifth of all
	Kept     int `json:"kept"`     // published photographs of which one caption is kept back; at most a fifth of all
}

// leastPhotographs is how many photographs are needed for a part of each kind.
const leastPhotographs = 10

// twinned are photographs of which every caption is published with an image of its own. The other captions of a photograph
// are then false negatives, known here and not to the pipeline.
type twinned struct {
	*data                 // its held pairs are those of photographs that are not published
	seen  *dataset.Corpus // published photographs, each with the caption that was kept back

	published []towers.Pair // the twins with their captions
}

// newTwins writes photographs and their twins into a folder and reads them back. A seed parts them in its own way.
func newTwins(ctx context.Context, dir string, photos []photograph, sizes twinSizes, side int, seed uint64) (*twinned, error) {
	if len(photos) < leastPhotographs {
		return nil, fmt.Errorf("%d images with %d captions or more, want at least %d", len(photos), sizes.Captions, leastPhotographs)
	}
	all := slices.Clone(photos)
	draws := rng.New(seed, "experiments.twins")
	draws.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	w := twins.New(dir)
	unseen, kept, last := min(sizes.Unseen, len(all)/5), min(sizes.Kept, len(all)/5), sizes.Captions-1
	w.Folder("unseen")
	for _, p := range all[:unseen] {
		w.Add(p.number, p.encoded, p.captions...)
	}
	w.Folder("seen")
	for _, p := range all[unseen : unseen+kept] {
		w.Add(p.number, p.encoded, p.captions[last])
	}
	w.Folder("twins")
	var published []towers.Pair
	for i, p := range all[unseen:] {
		if i < kept {
			p.captions = p.captions[:last]
		}
		for j, caption := range p.captions {
			w.Add(p.number, p.twins[j], caption)
			published = append(published, towers.Pair{Picture: p.twins[j], Caption: caption})
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	t, err := readTwins(ctx, w, side)
	if err == nil {
		t.published = published
	}
	return t, err
}

// readPhotographs reads images with so many captions or more, in the order of the tars, and makes their twins.
func readPhotographs(ctx context.Context, photos string, captions int) (all []photograph, err error) {
	draws := rng.New(0, "experiments.twins") // all seeds share the twins
	_, err = shard.Scan(ctx, []string{photos}, shard.Visitor{
		Example: func(ex shard.Example) error {
			if len(ex.Captions) < captions {
				return nil
			}
			p := photograph{number: len(all), encoded: slices.Clone(ex.Encoded), captions: ex.Captions[:captions]}
			if err := p.multiply(draws); err != nil {
				return fmt.Errorf("image %d of %s: %w", p.number, photos, err)
			}
			all = append(all, p)
			return nil
		},
		Problem: func(shard.Problem) error { return nil }, // an image less
	})
	return all, err
}

// multiply makes a twin for every caption.
func (p *photograph) multiply(draws *rand.Rand) error {
	im, _, err := image.Decode(bytes.NewReader(p.encoded))
	if err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	for range p.captions {
		twin, err := twins.Crop(im, draws)
		if err != nil {
			return err
		}
		p.twins = append(p.twins, twin)
	}
	return nil
}

// readTwins reads the folders back.
func readTwins(ctx context.Context, w *twins.Writer, side int) (*twinned, error) {
	var parts [3]*dataset.Corpus // unseen, seen, twins
	for i, name := range w.Folders() {
		var err error
		if parts[i], _, err = dataset.Read(ctx, []string{name}, 0); err != nil {
			return nil, err
		}
	}
	t := &twinned{seen: parts[1], data: &data{held: parts[0], train: parts[2]}}
	_, err := shard.Scan(ctx, w.Folders()[2:], shard.Visitor{
		Example: func(ex shard.Example) error { t.pairs = append(t.pairs, shard.Pairs(ex)...); return nil },
		Problem: func(p shard.Problem) error { return fmt.Errorf("reading twins: %s", p) },
	})
	if err != nil {
		return nil, err
	}
	t.fits = w.Fits
	t.vocab = token.BuildVocab(t.train.Captions, 2000, 2)
	t.images, t.closeImages, err = bootstrap.Images(ctx, w.Folders(), side, 1<<30)
	return t, err
}
