// Package corpus is a set of pairs read straight from tars, without the log: what a first model is trained on, and what
// a model is evaluated on.
//
// References and captions are held in memory, images are not: they are read and decoded when they are needed, and the
// latest used are kept. The order is that of the tars. A Corpus is safe for concurrent use.
package corpus

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/produce"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/schemas"
)

// Corpus is images with one or more captions each.
type Corpus struct {
	images   []picture
	captions []caption
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

// Read reads the pairs of tars and parts them: the heldOut images with the smallest ids, those that `pairstream produce`
// keeps back, and the rest. What is no pair is left out of both.
func Read(ctx context.Context, paths []string, heldOut int) (rest, held *Corpus, err error) {
	rest, held = new(Corpus), new(Corpus)
	seen := map[schemas.ImageID]bool{}
	_, kept, err := produce.Run(ctx, paths, produce.Options{Lanes: 1, HeldOut: heldOut}, func(produce.Message) error { return nil })
	if err != nil {
		return nil, nil, err
	}
	for _, ex := range kept {
		if !seen[ex.ImageID] {
			held.add(ex.Image, ex.ImageID, ex.Captions)
		}
		seen[ex.ImageID] = true
	}
	_, err = shard.Scan(ctx, paths, shard.Visitor{
		Example: func(ex shard.Example) error {
			if _, err := imaging.ReadHeader(ex.Encoded); err == nil && !seen[ex.ImageID] {
				rest.add(ex.Image, ex.ImageID, ex.Captions)
			}
			return nil
		},
		Problem: func(shard.Problem) error { return nil }, // `pairstream produce` reports them
	})
	if err != nil {
		return nil, nil, fmt.Errorf("reading pairs: %w", err)
	}
	return rest, held, nil
}

// Join is the pairs of several corpora, one after another.
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

// Images is the number of images.
func (c *Corpus) Images() int { return len(c.images) }

// Pairs is the number of captions.
func (c *Corpus) Pairs() int { return len(c.captions) }

// Pair is the caption of a number, and its image by number and id.
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

// Slice is the part of the corpus whose image ids lie in the first share of all ids: a random sample of the images.
func (c *Corpus) Slice(share float64) *Corpus {
	part := new(Corpus)
	at := 0
	for i, p := range c.images {
		var texts []string
		for ; at < len(c.captions) && c.captions[at].image == int32(i); at++ {
			texts = append(texts, c.captions[at].text)
		}
		if float64(p.id[15])+float64(p.id[14])/256 < 256*share {
			part.add(p.ref, p.id, texts)
		}
	}
	return part
}

// Training is a corpus as a model's training examples; it implements trainer.Examples.
type Training struct {
	*Corpus
	Ctx     context.Context //nolint:containedctx // of the training run that asks for examples
	Source  *shard.Images
	Words   *token.WordPiece
	Length  int // most tokens of a text
	Size    int // pixels on a side
	Augment imaging.AugmentOptions
}

// Len is the number of pairs.
func (t *Training) Len() int { return t.Pairs() }

// ImageID tells pairs that show the same image.
func (t *Training) ImageID(i int) schemas.ImageID { return t.images[t.captions[i].image].id }

// Load prepares a pair.
func (t *Training) Load(i int, pixels []float32, r *rand.Rand) ([]int32, error) {
	p := t.images[t.captions[i].image]
	im, err := t.Source.Get(t.Ctx, p.ref, p.id)
	if err != nil {
		return nil, err
	}
	o := t.Augment
	o.Size = t.Size
	imaging.Preprocess{Size: t.Size}.Into(pixels, imaging.Augment(im, o, r))
	return t.Words.Encode(t.captions[i].text, t.Length), nil
}

// Evaluation is the corpus as the data of an evaluation.
func (c *Corpus) Evaluation(ctx context.Context, source *shard.Images, words *token.WordPiece, size, length int) eval.Data {
	d := eval.Data{
		Images: len(c.images),
		Pixels: func(i int, pixels []float32) error {
			im, err := source.Get(ctx, c.images[i].ref, c.images[i].id)
			if err == nil {
				imaging.Preprocess{Size: size}.Into(pixels, im)
			}
			return err
		},
	}
	for _, x := range c.captions {
		d.Texts = append(d.Texts, words.Encode(x.text, length))
		d.ImageOf = append(d.ImageOf, x.image)
	}
	return d
}
