package trainer

import (
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/schemas"
)

// Input is what a batch's references and texts have become.
type Input struct {
	// Pixels are the preprocessed training images, one after another: 3 x S x S float32 each.
	Pixels []float32
	// Positives are the images to be pulled towards them, as Pixels: a sample's positive, or another augmentation of its own
	// image where it has none. Needed when UniWeight is above 0; else not looked at.
	Positives []float32
	// IDs are the token ids of each sample's text: [CLS] ... [SEP], not padded.
	IDs [][]int32
}

// ErrInput marks a batch or an input that does not fit the model; another attempt would fail alike.
var ErrInput = errors.New("input does not fit")

// check compares the batch and its input with the model's sizes.
func (t *Trainer) check(b *schemas.ScoredBatch, in Input) error {
	n, side := len(b.Samples), t.model.Config.ImageSize
	image := 3 * side * side
	switch {
	case n == 0:
		return fmt.Errorf("%w: batch without samples", ErrInput)
	case len(in.Pixels) != n*image:
		return fmt.Errorf("%w: %d pixel values for %d images of %d", ErrInput, len(in.Pixels), n, image)
	case t.options.UniWeight > 0 && len(in.Positives) != n*image:
		return fmt.Errorf("%w: %d pixel values for %d positives of %d", ErrInput, len(in.Positives), n, image)
	case len(in.IDs) != n:
		return fmt.Errorf("%w: %d texts for %d samples", ErrInput, len(in.IDs), n)
	case len(b.I2T) != n*int(b.M) || len(b.T2I) != len(b.I2T) || len(b.ProbI2T) != len(b.I2T) || len(b.ProbT2I) != len(b.I2T):
		return fmt.Errorf("%w: %d and %d candidates with %d and %d probabilities, want %d x %d",
			ErrInput, len(b.I2T), len(b.T2I), len(b.ProbI2T), len(b.ProbT2I), n, b.M)
	}
	for i := range b.Samples {
		for _, j := range b.Samples[i].Partners {
			if j < 0 || int(j) >= n || int(j) == i {
				return fmt.Errorf("%w: sample %d of %d has partner %d", ErrInput, i, n, j)
			}
		}
	}
	for k := range b.I2T {
		for _, j := range []int32{b.I2T[k], b.T2I[k]} {
			if j < -1 || int(j) >= n || int(j) == k/int(b.M) {
				return fmt.Errorf("%w: anchor %d of %d has candidate %d", ErrInput, k/int(b.M), n, j)
			}
		}
	}
	return nil
}
