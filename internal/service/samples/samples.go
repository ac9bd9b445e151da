// Package samples turns the references and texts of a mini-batch into what models take: pixels and token ids.
//
// Images are loaded by several goroutines; every random variation draws from a generator keyed by the run's seed and
// the sample's place (lane, group, epoch, batch, row), so that the trainer and Con-D see the same pixels (MAFA
// section 4.1 scores the augmented images), and a repeated batch looks the same again.
package samples

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/imaging"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/schemas"
)

// Source gives decoded images.
type Source interface {
	Get(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) (*imaging.Image, error)
}

// Augmentation says how training images vary.
type Augmentation struct {
	MinScale float64 `env:"AUGMENT_MIN_SCALE" envDefault:"0.5" desc:"smallest share of an image's area that a random crop keeps, up to 1; 1: no crop"`
	Flip     float64 `env:"AUGMENT_FLIP" envDefault:"0.5" desc:"probability of mirroring an image; 0 where captions speak of left and right"`
	Color    float64 `env:"AUGMENT_COLOR" envDefault:"0.2" desc:"how much brightness, contrast and saturation vary"`
	Workers  int     `env:"IMAGE_WORKERS" envDefault:"2" desc:"goroutines that load, decode and augment images of a batch"`
}

// Validate joins all problems.
func (a Augmentation) Validate() error {
	var problems []error
	within := func(name string, v, low, high float64) {
		if !(v >= low && v <= high) {
			problems = append(problems, fmt.Errorf("%s is %g, want %g..%g", name, v, low, high))
		}
	}
	within("AUGMENT_MIN_SCALE", a.MinScale, 0.01, 1)
	within("AUGMENT_FLIP", a.Flip, 0, 1)
	within("AUGMENT_COLOR", a.Color, 0, 1)
	if a.Workers < 1 {
		problems = append(problems, fmt.Errorf("IMAGE_WORKERS is %d, want at least 1", a.Workers))
	}
	return errors.Join(problems...)
}

// Loader makes the inputs of one model.
type Loader struct {
	source  Source
	size    int
	seed    uint64
	augment Augmentation
	words   *token.WordPiece
	length  int
}

// NewLoader prepares inputs of size x size pixels and at most length tokens of the given vocabulary.
func NewLoader(source Source, size, length int, vocab []string, seed uint64, augment Augmentation) (*Loader, error) {
	words, err := token.NewWordPiece(vocab)
	if err != nil {
		return nil, err
	}
	return &Loader{source: source, size: size, seed: seed, augment: augment, words: words, length: length}, nil
}

// IDs are the token ids of the batch's texts.
func (l *Loader) IDs(b *schemas.Batch) [][]int32 {
	ids := make([][]int32, len(b.Samples))
	for i := range b.Samples {
		ids[i] = l.words.Encode(b.Samples[i].Text, l.length)
	}
	return ids
}

// Images are the augmented training images of the batch, 3 x size x size float32 each.
func (l *Loader) Images(ctx context.Context, b *schemas.Batch) ([]float32, error) {
	return l.load(ctx, b, "image", func(s *schemas.Sample) (schemas.ImageRef, schemas.ImageID) { return s.Image, s.ImageID })
}

// Positives are the images of which each sample should be close to its own: its positive, or where it has none another
// augmentation of its image (GPN-S section 3.3.2).
func (l *Loader) Positives(ctx context.Context, b *schemas.Batch) ([]float32, error) {
	return l.load(ctx, b, "positive", func(s *schemas.Sample) (schemas.ImageRef, schemas.ImageID) {
		if s.Positive == nil {
			return s.Image, s.ImageID
		}
		return s.Positive.Image, s.Positive.ImageID
	})
}

func (l *Loader) load(ctx context.Context, b *schemas.Batch, purpose string,
	pick func(*schemas.Sample) (schemas.ImageRef, schemas.ImageID),
) ([]float32, error) {
	pre := imaging.Preprocess{Size: l.size}
	pixels := make([]float32, len(b.Samples)*pre.Values())
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(l.augment.Workers)
	for i := range b.Samples {
		workers.Go(func() error {
			ref, id := pick(&b.Samples[i])
			im, err := l.source.Get(ctx, ref, id)
			if err != nil {
				return fmt.Errorf("loading image %s of sample %d: %w", id, i, err)
			}
			r := rng.New(l.seed, purpose, int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence), int64(i))
			im = imaging.Augment(im, imaging.AugmentOptions{
				Size: l.size, MinScale: l.augment.MinScale, Flip: l.augment.Flip, Color: l.augment.Color,
			}, r)
			pre.Into(pixels[i*pre.Values():(i+1)*pre.Values()], im)
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	return pixels, nil
}
