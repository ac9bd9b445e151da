package eval

import (
	"context"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/token"
)

// FromCorpus returns a corpus as the data of an evaluation: images of size x size pixels, texts of at most length tokens.
func FromCorpus(ctx context.Context, c *dataset.Corpus, source *shard.Images, words *token.WordPiece, size, length int) Data {
	d := Data{
		Images: c.Images(),
		Pixels: func(i int, pixels []float32) error {
			ref, id := c.Image(i)
			im, err := source.Get(ctx, ref, id)
			if err == nil {
				imaging.Preprocess{Size: size}.Into(pixels, im)
			}
			return err
		},
	}
	for i := range c.Pairs() {
		text, image, _ := c.Pair(i)
		d.Texts = append(d.Texts, words.Encode(text, length))
		d.ImageOf = append(d.ImageOf, int32(image))
	}
	return d
}
