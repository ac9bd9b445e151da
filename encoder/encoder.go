// Package encoder embeds pairs with an off-the-shelf dual encoder: v = g_V(image), t = g_T(caption), unit vectors
// (GPN-S section 3.2).
//
// Pairs of one lane come in, in offset order; one [Result] for each goes out, in the same order: an embedding, or the
// reason why the pair has none. An embedding is a function of the pair and the model alone. The division of pairs into
// batches for the device changes no bit of it, because a [Model] must not let a row depend on its companions.
// Images are loaded and decoded by up to [Options.Workers] goroutines; the model is called from the caller's goroutine.
// The package knows nothing of topics, buckets or image formats: it is handed [Images].
package encoder

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/schemas"
)

// ErrUnusable marks an image that no retry will make usable: missing, truncated, too large, not an image, or not the
// image that its hash promises.
var ErrUnusable = errors.New("unusable image")

// Model is a dual encoder. Row i of a result depends on input i alone, never on the other inputs of the call.
type Model interface {
	// EncodeImages maps n images (n x 3 x size x size bytes) to n unit rows of Dim values.
	EncodeImages(ctx context.Context, pixels []byte, n int) ([]float32, error)
	// EncodeTexts maps captions to unit rows of Dim values.
	EncodeTexts(ctx context.Context, captions []string) ([]float32, error)
	Dim() int
	ImageSize() int
	// Fingerprint names the weights; embeddings of different fingerprints never share a group.
	Fingerprint() string
}

// Images gives the pixels of a pair's image as the model wants them.
type Images interface {
	// Load fills dst (3 x size x size bytes) and describes the image, unless the image has an unwanted size. An error
	// that wraps ErrUnusable is final; any other may pass and is worth a retry.
	Load(ctx context.Context, p *schemas.Pair, wanted Wanted, dst []byte) (Loaded, error)
}

// Wanted returns an error that wraps ErrUnusable if an image of this size, upright, is not to be embedded. It is called
// by several goroutines.
type Wanted func(p *schemas.Pair, width, height int) error

// Loaded is an image that was loaded.
type Loaded struct {
	Ref           schemas.ImageRef // where it is kept
	Width, Height int              // of the whole image, upright
}

// Options of an [Encoder].
type Options struct {
	BatchSize int `env:"ENCODER_BATCH_SIZE" envDefault:"32" desc:"pairs embedded in one call of the device"`
	Workers   int `envDefault:"1"` // goroutines that load and decode images
}

// Validate returns every invalid option, joined.
func (o Options) Validate() error {
	var l invalid.List
	invalid.AtLeast(&l, "BatchSize", o.BatchSize, 1)
	invalid.AtLeast(&l, "Workers", o.Workers, 1)
	return l.Err()
}

// Result is what became of one pair: exactly one of the first two fields is set.
type Result struct {
	Embedding *schemas.Embedding
	Unusable  error  // wraps ErrUnusable
	Image     Loaded // that was embedded
}

// Encoder embeds pairs. It keeps no state between calls and is safe for concurrent use if its model and images are.
type Encoder struct {
	model  Model
	images Images
	opts   Options
}

// New returns an encoder that reads images from images and embeds with model.
func New(model Model, images Images, opts Options) (*Encoder, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("configuring encoder: %w", err)
	}
	return &Encoder{model: model, images: images, opts: opts}, nil
}

// BatchSize returns the number of pairs that Encode likes to be given at once.
func (e *Encoder) BatchSize() int { return e.opts.BatchSize }

// Encode embeds pairs, in order. An error is a fault that may pass (the bucket or the device is out of reach); a pair
// that can never be embedded is a Result, not an error.
func (e *Encoder) Encode(ctx context.Context, pairs []*schemas.Pair, wanted Wanted) ([]Result, error) {
	results := make([]Result, len(pairs))
	pixels, err := e.load(ctx, pairs, wanted, results)
	if err != nil {
		return nil, err
	}
	var usable []int
	var captions []string
	size := e.pixelsPerImage()
	for i := range pairs {
		if results[i].Unusable == nil {
			copy(pixels[len(usable)*size:(len(usable)+1)*size], pixels[i*size:(i+1)*size])
			usable = append(usable, i)
			captions = append(captions, pairs[i].Caption)
		}
	}
	if len(usable) == 0 {
		return results, nil
	}
	v, err := e.model.EncodeImages(ctx, pixels[:len(usable)*size], len(usable))
	if err != nil {
		return nil, fmt.Errorf("encoding %d images: %w", len(usable), err)
	}
	t, err := e.model.EncodeTexts(ctx, captions)
	if err != nil {
		return nil, fmt.Errorf("encoding %d captions: %w", len(usable), err)
	}
	dim := e.model.Dim()
	for row, i := range usable {
		results[i].Embedding = newEmbedding(pairs[i], results[i].Image.Ref, v[row*dim:(row+1)*dim], t[row*dim:(row+1)*dim], e.model.Fingerprint())
	}
	return results, nil
}

func (e *Encoder) pixelsPerImage() int { return 3 * e.model.ImageSize() * e.model.ImageSize() }

// load decodes every image into its own row of pixels. It records each image, or the reason why it is unusable, in
// results.
func (e *Encoder) load(ctx context.Context, pairs []*schemas.Pair, wanted Wanted, results []Result) ([]byte, error) {
	size := e.pixelsPerImage()
	pixels := make([]byte, len(pairs)*size)
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(e.opts.Workers)
	for i, p := range pairs {
		workers.Go(func() error {
			loaded, err := e.images.Load(ctx, p, wanted, pixels[i*size:(i+1)*size])
			switch {
			case errors.Is(err, ErrUnusable):
				results[i].Unusable = err
			case err != nil:
				return fmt.Errorf("loading image of pair %s: %w", p.ID, err)
			}
			results[i].Image = loaded
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	return pixels, nil
}

// newEmbedding rounds the vectors to what travels and takes the similarity of the rounded ones, so that every reader
// can compute the same number.
func newEmbedding(p *schemas.Pair, ref schemas.ImageRef, v, t []float32, model string) *schemas.Embedding {
	e := &schemas.Embedding{
		ID: p.ID, ImageID: p.ImageID, Image: ref, Caption: p.Caption,
		V: schemas.NewFloat16s(v), T: schemas.NewFloat16s(t), Model: model,
	}
	rv, rt := e.V.Floats(), e.T.Floats()
	var dot float64
	for i := range rv {
		dot += float64(rv[i]) * float64(rt[i])
	}
	e.Similarity = float32(dot)
	return e
}
