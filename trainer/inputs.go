package trainer

import (
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/match"
	"github.com/pairstream/pairstream/internal/torch"
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

	sent *sent // the images, when [Trainer.Send] has taken them; else nil
}

// sent are images on their way to the device.
type sent struct{ pixels, positives *torch.Upload }

// Send starts to copy an input's images to the device, where they arrive while it computes the step before. It may be
// called on another goroutine than Step is. The pixels are the caller's again; the input that Send returns has none, and
// goes to one Step, or back by [Input.Free].
func (t *Trainer) Send(in Input) (Input, error) {
	out := Input{IDs: in.IDs, sent: new(sent)}
	var err error
	if out.sent.pixels, err = match.Send(in.Pixels, len(in.IDs), t.model); err == nil && t.options.UniWeight > 0 {
		out.sent.positives, err = match.Send(in.Positives, len(in.IDs), t.model)
	}
	if err != nil {
		out.Free()
		return Input{}, fmt.Errorf("sending images to the device: %w", err)
	}
	return out, nil
}

// Free gives back what Send has taken and no step has received.
func (in Input) Free() {
	if in.sent != nil {
		in.sent.pixels.Free()
		in.sent.positives.Free()
	}
}

// images and positives are the input's on the device.
func (t *Trainer) images(s *torch.Scope, in Input) (*torch.Tensor, error) {
	if in.sent != nil {
		return match.Received(s, in.sent.pixels, t.model), nil
	}
	return match.Images(s, in.Pixels, len(in.IDs), t.model)
}

func (t *Trainer) positives(s *torch.Scope, in Input) (*torch.Tensor, error) {
	if in.sent != nil {
		return match.Received(s, in.sent.positives, t.model), nil
	}
	return match.Images(s, in.Positives, len(in.IDs), t.model)
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
	case in.sent == nil && len(in.Pixels) != n*image:
		return fmt.Errorf("%w: %d pixel values for %d images of %d", ErrInput, len(in.Pixels), n, image)
	case in.sent == nil && t.options.UniWeight > 0 && len(in.Positives) != n*image:
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
