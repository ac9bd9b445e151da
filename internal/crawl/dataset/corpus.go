package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Corpus is a set of images with one or more captions each.
type Corpus struct {
	images   []picture
	captions []caption
	totals   shard.Totals
}

type picture struct {
	ref schemas.ImageRef
	id  schemas.ImageID
}

type caption struct {
	text  string
	image int32
}

func (c *Corpus) add(ref schemas.ImageRef, id schemas.ImageID, captions []string) {
	c.images = append(c.images, picture{ref, id})
	for _, text := range captions {
		c.captions = append(c.captions, caption{text, int32(len(c.images) - 1)})
	}
}

// Read reads the pairs of tars in one pass and splits them. held has the heldOut images with the smallest ids, which
// `pairstream produce` keeps back; rest has the others. Read decodes every image once, because a broken one would end a
// training or an evaluation later. [Corpus.Totals] counts everything that is not a pair.
func Read(ctx context.Context, paths []string, heldOut int) (rest, held *Corpus, err error) {
	all, err := readAll(ctx, paths)
	if err != nil {
		return nil, nil, fmt.Errorf("reading pairs: %w", err)
	}
	return all.HoldOut(heldOut)
}

// reading decodes images beside the scan, which lends their bytes only during its callback.
type reading struct {
	all      Corpus
	decoding *errgroup.Group
	mu       sync.Mutex
	broken   map[int]bool // images by number
}

func readAll(ctx context.Context, paths []string) (*Corpus, error) {
	return scan(ctx, paths, func(r *reading, v *shard.Visitor) {
		v.Example = func(ex shard.Example) error {
			r.take(ex.Image, ex.ImageID, ex.Encoded, ex.Captions)
			return nil
		}
	})
}

// scan reads tars with a visitor that visit extends.
func scan(ctx context.Context, paths []string, visit func(*reading, *shard.Visitor)) (*Corpus, error) {
	r, totals, err := readAllOf(ctx, paths, visit)
	if err != nil {
		return nil, err
	}
	return r.sound(totals), nil
}

// readAllOf is scan, with what tells which images are broken.
func readAllOf(ctx context.Context, paths []string, visit func(*reading, *shard.Visitor)) (*reading, shard.Totals, error) {
	r := &reading{decoding: new(errgroup.Group), broken: map[int]bool{}}
	r.decoding.SetLimit(runtime.GOMAXPROCS(0))
	v := shard.Visitor{Problem: func(shard.Problem) error { return nil }} // the totals count it; `pairstream produce` reports it in full
	visit(r, &v)
	totals, err := shard.Scan(ctx, paths, v)
	return r, totals, errors.Join(err, r.decoding.Wait())
}

// sound returns the images that can be decoded.
func (r *reading) sound(totals shard.Totals) *Corpus {
	whole := r.all.pick(func(i int) bool { return !r.broken[i] })
	whole.totals = totals
	if n := len(r.broken); n > 0 {
		whole.totals.Problems[shard.ReasonImage] = n
	}
	return whole
}

// take adds an image, and decodes it beside the scan.
func (r *reading) take(ref schemas.ImageRef, id schemas.ImageID, encoded []byte, captions []string) {
	number, own := len(r.all.images), bytes.Clone(encoded)
	r.all.add(ref, id, captions)
	r.decoding.Go(func() error { r.check(number, own); return nil })
}

func (r *reading) check(number int, encoded []byte) {
	if err := imaging.Check(encoded); err != nil {
		r.mu.Lock()
		r.broken[number] = true
		r.mu.Unlock()
	}
}

// Totals returns the counts of everything in the tars that is not a pair. Images that cannot be decoded are among the
// problems.
func (c *Corpus) Totals() shard.Totals { return c.totals }

// HoldOut splits the corpus: the images with the n smallest ids, each once, and the rest. The totals stay with the
// rest.
func (c *Corpus) HoldOut(n int) (rest, held *Corpus, err error) {
	chosen := shard.NewHeldOut(n)
	for _, p := range c.images {
		chosen.Add(p.id)
	}
	if err := checkHeldOut(n, chosen, len(c.images)); err != nil {
		return nil, nil, err
	}
	seen := map[schemas.ImageID]bool{}
	held = c.pick(func(i int) bool {
		id := c.images[i].id
		first := !seen[id]
		seen[id] = true
		return first && chosen.Has(id)
	})
	rest = c.pick(func(i int) bool { return !chosen.Has(c.images[i].id) })
	rest.totals = c.totals
	return rest, held, nil
}

// Without returns the images whose ids gone does not report, with their captions.
func (c *Corpus) Without(gone func(schemas.ImageID) bool) *Corpus {
	left := c.pick(func(i int) bool { return !gone(c.images[i].id) })
	left.totals = c.totals
	return left
}

// pick returns the images whose number wanted accepts, with their captions. It calls wanted once for every number, in
// order.
func (c *Corpus) pick(wanted func(int) bool) *Corpus {
	part := new(Corpus)
	at := 0
	for i, p := range c.images {
		var texts []string
		for ; at < len(c.captions) && c.captions[at].image == int32(i); at++ {
			texts = append(texts, c.captions[at].text)
		}
		if wanted(i) {
			part.add(p.ref, p.id, texts)
		}
	}
	return part
}

// Join returns the pairs of several corpora, one after another.
func Join(parts ...*Corpus) *Corpus {
	all := new(Corpus)
	for _, c := range parts {
		first := int32(len(all.images))
		all.images = append(all.images, c.images...)
		for _, x := range c.captions {
			all.captions = append(all.captions, caption{x.text, first + x.image})
		}
	}
	return all
}

// Images returns the number of images.
func (c *Corpus) Images() int { return len(c.images) }

// Pairs returns the number of captions.
func (c *Corpus) Pairs() int { return len(c.captions) }

// Image returns the reference and the id of an image by its number.
func (c *Corpus) Image(i int) (schemas.ImageRef, schemas.ImageID) {
	return c.images[i].ref, c.images[i].id
}

// Pair returns a caption by its number, and its image by number and id.
func (c *Corpus) Pair(i int) (text string, image int, id schemas.ImageID) {
	x := c.captions[i]
	return x.text, int(x.image), c.images[x.image].id
}

// Captions yields every caption.
func (c *Corpus) Captions(yield func(string) bool) {
	for _, x := range c.captions {
		if !yield(x.text) {
			return
		}
	}
}

// Slice returns the images whose ids lie in the first share of all ids: a random sample of the images.
func (c *Corpus) Slice(share float64) *Corpus {
	return c.pick(func(i int) bool {
		id := c.images[i].id
		return float64(id[15])+float64(id[14])/256 < 256*share
	})
}

// Training presents a corpus as training examples of a model; it implements trainer.Examples.
type Training struct {
	*Corpus
	Ctx     context.Context //nolint:containedctx // of the training run
	Source  *shard.Images
	Words   *token.WordPiece
	Length  int // most tokens of a text
	Size    int // pixels on a side
	Augment Augmentation
}

// Len returns the number of pairs.
func (t *Training) Len() int { return t.Pairs() }

// ImageID returns the same id for pairs that show the same image.
func (t *Training) ImageID(i int) schemas.ImageID { return t.images[t.captions[i].image].id }

// Load prepares a pair.
func (t *Training) Load(i int, pixels []float32, r *rand.Rand) ([]int32, error) {
	p := t.images[t.captions[i].image]
	im, err := t.Source.Get(t.Ctx, p.ref, p.id)
	if err != nil {
		return nil, err
	}
	imaging.Preprocess{Size: t.Size}.Into(pixels, imaging.Augment(im, t.Augment.options(t.Size), r))
	return t.Words.Encode(t.captions[i].text, t.Length), nil
}
