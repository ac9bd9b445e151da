package trainer

import (
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
)

// Input holds a batch's references and texts in the form that a step takes.
type Input struct {
	// Pixels are the preprocessed training images, one after another: 3 x S x S float32 each.
	Pixels []float32
	// Positives are the images that should come close to them, in the form of Pixels. Each is a sample's positive, or
	// another augmentation of its own image where it has none. They are needed when UniWeight is above 0; else they are
	// ignored.
	Positives []float32
	// Second holds other augmentations of the images, in the form of Pixels. They are needed with ITC.Triple; else they
	// are ignored.
	Second []float32
	// IDs are the token ids of each sample's text: [CLS] ... [SEP], not padded.
	IDs [][]int32
	// Masked names the samples whose images could not be had, beyond those that the batch masks. Their pixels are 0.
	Masked []schemas.Mask
	// Decay says how far the decay of the learning rate has come, for [StreamSteps].
	Decay Decay

	sent *sent // the images, when [Trainer.Send] has taken them; else nil
}

// sent are images on their way to the device.
type sent struct{ pixels, positives, second *torch.Upload }

// tensors are a batch's images and texts on the device; positives and second are nil where no loss wants them.
type tensors struct {
	pixels, positives, second *torch.Tensor // [n, 3, S, S]
	ids, attention            *torch.Tensor // [n, length]
	texts                     [][]int32
}

// Send starts to copy an input's images to the device, where they arrive while it computes the step before. It may run on
// another goroutine than Step. The pixels belong to the caller again when it returns. The input that Send returns has
// none, and goes to one Step, or back by [Input.Free].
func (t *Trainer) Send(in Input) (Input, error) {
	out := Input{IDs: in.IDs, Masked: in.Masked, sent: new(sent)}
	var err error
	send := func(to **torch.Upload, pixels []float32, wanted bool) {
		if wanted && err == nil {
			*to, err = model.Send(pixels, len(in.IDs), t.model)
		}
	}
	send(&out.sent.pixels, in.Pixels, true)
	send(&out.sent.positives, in.Positives, t.options.UniWeight > 0)
	send(&out.sent.second, in.Second, t.options.ITC.Triple)
	if err != nil {
		out.Free()
		return Input{}, fmt.Errorf("sending images to the device: %w", err)
	}
	return out, nil
}

// Free frees what Send has sent and no step has received.
func (in Input) Free() {
	if in.sent != nil {
		in.sent.pixels.Free()
		in.sent.positives.Free()
		in.sent.second.Free()
	}
}

// receive puts an input on the device.
func (t *Trainer) receive(s *torch.Scope, in Input) (x tensors, err error) {
	if in.sent == nil {
		if in, err = t.Send(in); err != nil {
			return x, err
		}
		defer in.Free()
	}
	x.texts = in.IDs
	x.pixels = model.Received(s, in.sent.pixels, t.model)
	if in.sent.positives != nil {
		x.positives = model.Received(s, in.sent.positives, t.model)
	}
	if in.sent.second != nil {
		x.second = model.Received(s, in.sent.second, t.model)
	}
	x.ids, x.attention, err = model.Texts(s, in.IDs, t.vocabulary.Pad, t.model.Config)
	return x, err
}

// ErrInput marks a batch or an input that does not fit the model. Another attempt would fail in the same way.
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
	case in.sent == nil && t.options.ITC.Triple && len(in.Second) != n*image:
		return fmt.Errorf("%w: %d pixel values for %d second views of %d", ErrInput, len(in.Second), n, image)
	case len(in.IDs) != n:
		return fmt.Errorf("%w: %d texts for %d samples", ErrInput, len(in.IDs), n)
	case len(b.I2T) != n*int(b.M) || len(b.T2I) != len(b.I2T) || len(b.ProbI2T) != len(b.I2T) || len(b.ProbT2I) != len(b.I2T):
		return fmt.Errorf("%w: %d and %d candidates with %d and %d probabilities, want %d x %d",
			ErrInput, len(b.I2T), len(b.T2I), len(b.ProbI2T), len(b.ProbT2I), n, b.M)
	}
	for _, m := range masksOf(b, in) {
		if m.Sample < 0 || int(m.Sample) >= n {
			return fmt.Errorf("%w: sample %d of %d is masked", ErrInput, m.Sample, n)
		}
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
