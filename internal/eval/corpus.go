package eval

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/token"
)

// FromCorpus returns a corpus as the data of an evaluation: images of size x size pixels, texts of at most length tokens.
func FromCorpus(ctx context.Context, c *dataset.Corpus, source *shard.Images, words *token.WordPiece, size, length int) Data {
	d := texts(c, words, length)
	d.Pixels = func(i int, pixels []float32) error {
		ref, id := c.Image(i)
		im, err := source.Get(ctx, ref, id)
		if err == nil {
			imaging.Preprocess{Size: size}.Into(pixels, im)
		}
		return err
	}
	return d
}

// Held returns the same data as [FromCorpus], for several evaluations. It loads all images at once, several at a time, and
// keeps them in memory: 3 x size x size bytes each.
func Held(ctx context.Context, c *dataset.Corpus, source *shard.Images, words *token.WordPiece, size, length, workers int) (Data, error) {
	d := texts(c, words, length)
	fit := imaging.Preprocess{Size: size}
	pictures := make([]*imaging.Image, c.Images())
	loading, ctx := errgroup.WithContext(ctx)
	loading.SetLimit(max(1, workers))
	for i := range pictures {
		loading.Go(func() error {
			ref, id := c.Image(i)
			im, err := source.Get(ctx, ref, id)
			if err == nil {
				pictures[i] = fit.Fit(im)
			}
			return err
		})
	}
	if err := loading.Wait(); err != nil {
		return Data{}, err
	}
	d.Pixels = func(i int, pixels []float32) error {
		fit.Into(pixels, pictures[i])
		return nil
	}
	return d, nil
}

// texts returns data without pixels.
func texts(c *dataset.Corpus, words *token.WordPiece, length int) Data {
	d := Data{Images: c.Images()}
	for i := range c.Pairs() {
		text, image, _ := c.Pair(i)
		d.Texts = append(d.Texts, words.Encode(text, length))
		d.ImageOf = append(d.ImageOf, int32(image))
	}
	return d
}
