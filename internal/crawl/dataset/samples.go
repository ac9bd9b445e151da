package dataset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/schemas"
)

// Source gives decoded images.
type Source interface {
	Get(ctx context.Context, ref schemas.ImageRef, id schemas.ImageID) (*imaging.Image, error)
}

// Augmentation configures the variation of training images.
type Augmentation struct {
	MinScale float64 `env:"AUGMENT_MIN_SCALE" envDefault:"0.2" desc:"smallest share of an image's area that a random crop keeps, up to 1; 1: no crop"`
	Distort  bool    `env:"AUGMENT_DISTORT" envDefault:"false" desc:"vary images as TCL does: with probability 0.8 brightness, contrast and saturation by 0.4 and hue by 0.1, with 0.2 grey, with 0.5 blurred"`
	Flip     float64 `env:"AUGMENT_FLIP" envDefault:"0.5" desc:"probability of mirroring an image; 0 where captions speak of left and right"`
	Color    float64 `env:"AUGMENT_COLOR" envDefault:"0" desc:"how much brightness, contrast and saturation vary"`

	RandAugment `env:"AUGMENT_OPS" envDefault:"2,7" desc:"RandAugment: its operations, each done half of the time, and their strength, 0 to 10; 0: none"`

	Workers int `envDefault:"0"` // images of a batch to load, decode and augment at once; 0: see [Readers]; changes no image
}

// RandAugment is the number of operations, each done half of the time, and their strength.
type RandAugment struct{ Ops, Level int }

// UnmarshalText reads OPERATIONS,STRENGTH. No operations need no strength.
func (r *RandAugment) UnmarshalText(text []byte) error {
	ops, level, _ := strings.Cut(string(text), ",")
	n, err := strconv.Atoi(strings.TrimSpace(ops))
	strength, levelErr := strconv.Atoi(strings.TrimSpace(level))
	if err != nil || levelErr != nil && (n != 0 || level != "") {
		return errors.New("want two whole numbers, comma separated, such as 2,7, or 0")
	}
	*r = RandAugment{n, strength}
	return nil
}

// String returns the form that UnmarshalText reads.
func (r RandAugment) String() string { return fmt.Sprintf("%d,%d", r.Ops, r.Level) }

// Readers returns how many images to read at once: several for each processor, since reads also wait for the bucket.
func Readers() int { return min(4*runtime.GOMAXPROCS(0), mostReaders) }

const mostReaders = 96 // images of a batch in memory at a time

// Readers returns the number of images of a batch to load at once.
func (a Augmentation) Readers() int { return cmp.Or(a.Workers, Readers()) }

// Validate returns every invalid option, joined.
func (a Augmentation) Validate() error {
	var l invalid.List
	invalid.Within(&l, "MinScale", a.MinScale, 0.01, 1)
	invalid.Within(&l, "Flip", a.Flip, 0, 1)
	invalid.Within(&l, "Color", a.Color, 0, 1)
	l.Want(min(a.Ops, a.Level) >= 0 && max(a.Ops, a.Level) <= 10, "%s is %s, want two numbers of 0..10", invalid.Field("RandAugment"), a.RandAugment)
	invalid.AtLeast(&l, "Workers", a.Workers, 0)
	return l.Err()
}

// options returns the options for imaging, for pictures of size x size pixels.
func (a Augmentation) options(size int) imaging.AugmentOptions {
	return imaging.AugmentOptions{Size: size, MinScale: a.MinScale, Distort: a.Distort, Flip: a.Flip, Color: a.Color, Ops: a.Ops, Level: a.Level}
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

// NewLoader makes a loader for inputs of size x size pixels and at most length tokens.
func NewLoader(source Source, size, length int, words *token.WordPiece, seed uint64, augment Augmentation) *Loader {
	return &Loader{source: source, size: size, seed: seed, augment: augment, words: words, length: length}
}

// Drawn describes how images are drawn. Two loaders with the same description draw the same pixels of a sample, at one
// size.
func (l *Loader) Drawn() string {
	a := l.augment
	drawn := fmt.Sprintf("seed %d, crop %g, flip %g, color %g, ops %d, level %d", l.seed, a.MinScale, a.Flip, a.Color, a.Ops, a.Level)
	if a.Distort { // without it the text is that of earlier builds, which drew the same pixels
		drawn += ", distorted"
	}
	return drawn
}

// IDs returns the token ids of the batch's texts.
func (l *Loader) IDs(b *schemas.Batch) [][]int32 {
	texts := make([]string, len(b.Samples))
	for i := range b.Samples {
		texts[i] = b.Samples[i].Text
	}
	return l.Words(texts)
}

// Words returns the token ids of texts.
func (l *Loader) Words(texts []string) [][]int32 {
	ids := make([][]int32, len(texts))
	for i, text := range texts {
		ids[i] = l.words.Encode(text, l.length)
	}
	return ids
}

// Images returns the augmented training images of the batch, 3 x size x size float32 each. It leaves the images of
// samples in known black. A permanently unavailable image stays black too, and a mask for it is returned.
func (l *Loader) Images(ctx context.Context, b *schemas.Batch, known []schemas.Mask) ([]float32, []schemas.Mask, error) {
	return l.views(ctx, b, known, "image")
}

// Second returns another augmentation of each image, for losses that compare two views (TCL), as [Loader.Images] does.
func (l *Loader) Second(ctx context.Context, b *schemas.Batch, known []schemas.Mask) ([]float32, []schemas.Mask, error) {
	return l.views(ctx, b, known, "second view")
}

func (l *Loader) views(ctx context.Context, b *schemas.Batch, known []schemas.Mask, purpose string) ([]float32, []schemas.Mask, error) {
	return l.load(ctx, b, known, func(ctx context.Context, i int, dst []float32) ([]schemas.Mask, error) {
		reason, err := l.picture(ctx, b, i, purpose, b.Samples[i].Image, b.Samples[i].ImageID, dst)
		return maskFor(i, false, reason), err
	})
}

// Positives returns, for each sample, the image that should be close to its own: its positive, or another augmentation
// of its image if it has none (GPN-S section 3.3.2). Such an augmentation also replaces an unavailable positive. Masks
// are returned as from [Loader.Images].
func (l *Loader) Positives(ctx context.Context, b *schemas.Batch, known []schemas.Mask) ([]float32, []schemas.Mask, error) {
	lost := make([]bool, len(b.Samples))
	for _, m := range known {
		lost[m.Sample] = lost[m.Sample] || m.Positive
	}
	return l.load(ctx, b, known, func(ctx context.Context, i int, dst []float32) ([]schemas.Mask, error) {
		var masks []schemas.Mask
		if p := b.Samples[i].Positive; p != nil && !lost[i] {
			reason, err := l.picture(ctx, b, i, "positive", p.Image, p.ImageID, dst)
			if reason == "" || err != nil {
				return nil, err
			}
			masks = maskFor(i, true, reason)
		}
		reason, err := l.picture(ctx, b, i, "positive", b.Samples[i].Image, b.Samples[i].ImageID, dst)
		return append(maskFor(i, false, reason), masks...), err
	})
}

func maskFor(sample int, positive bool, reason string) []schemas.Mask {
	if reason == "" {
		return nil
	}
	return []schemas.Mask{{Sample: int32(sample), Positive: positive, Reason: reason}}
}

// load fills a row for every sample that is not masked, several at a time.
func (l *Loader) load(ctx context.Context, b *schemas.Batch, known []schemas.Mask,
	fill func(ctx context.Context, i int, dst []float32) ([]schemas.Mask, error),
) ([]float32, []schemas.Mask, error) {
	values := imaging.Preprocess{Size: l.size}.Values()
	pixels := make([]float32, len(b.Samples)*values)
	masked := make([]bool, len(b.Samples))
	for _, m := range known {
		masked[m.Sample] = masked[m.Sample] || !m.Positive
	}
	found := make([][]schemas.Mask, len(b.Samples))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(l.augment.Readers())
	for i := range b.Samples {
		if masked[i] {
			continue
		}
		workers.Go(func() error {
			var err error
			found[i], err = fill(ctx, i, pixels[i*values:(i+1)*values])
			return err
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, nil, err
	}
	return pixels, slices.Concat(found...), nil
}

// picture loads one image of a sample and varies it. For a permanently unavailable image it returns the reason of a
// mask. An error may be transient.
func (l *Loader) picture(ctx context.Context, b *schemas.Batch, i int, purpose string, ref schemas.ImageRef, id schemas.ImageID,
	dst []float32,
) (reason string, err error) {
	im, err := l.source.Get(ctx, ref, id)
	if reason := shard.MaskReason(err); reason != "" {
		return reason, nil
	}
	if err != nil {
		return "", fmt.Errorf("loading image %s of sample %d: %w", id, i, err)
	}
	r := rng.New(l.seed, purpose, int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence), int64(i))
	imaging.Preprocess{Size: l.size}.Into(dst, imaging.Augment(im, l.augment.options(l.size), r))
	return "", nil
}
