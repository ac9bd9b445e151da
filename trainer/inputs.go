package trainer

import (
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// Input holds a batch's references and texts in the form that a step takes.
type Input struct {
	// Pixels are the preprocessed training images, one after another: 3 x S x S float32 each.
	Pixels []float32
	// Positives are the images that should come close to the samples' images, in the form of Pixels. Each is a sample's
	// positive, or another augmentation of its own image if it has none. UniWeight above 0 requires them; otherwise
	// they are ignored.
	Positives []float32
	// Second holds other augmentations of the images, in the form of Pixels. [Triple] requires them; otherwise they
	// are ignored.
	Second []float32
	// IDs are the token ids of each sample's text: [CLS] ... [SEP], not padded.
	IDs [][]int32
	// Masked names the samples with unavailable images, beyond those that the batch masks. Their pixels are 0.
	Masked []schemas.Mask
	// Decay is the progress of the decay of the learning rate, for [StreamSteps].
	Decay Decay

	sent *sent // the images, when [Trainer.Send] has taken them; else nil
}

// sent are images on their way to the device, or there.
type sent struct {
	pixels, positives, second *torch.Upload
	received                  images
}

// images are those of a batch on the device, [n, 3, S, S]. positives and second are nil where no loss wants them.
type images struct{ pixels, positives, second *torch.Tensor }

// tensors are a batch's images and texts on the device.
type tensors struct {
	images
	ids, attention *torch.Tensor // [n, length]
	texts          [][]int32
	others         []batchKeys // of the step's other batches, where they are gathered
}

// Send starts to copy an input's images to the device, where they arrive while it computes the step before. It may run
// on another goroutine than Step. The pixels belong to the caller again when it returns. The input that Send returns
// has none, and goes to one Step, or back by [Input.Free].
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
	send(&out.sent.second, in.Second, t.options.ITC.Loss == Triple)
	if err != nil {
		out.Free()
		return Input{}, fmt.Errorf("sending images to the device: %w", err)
	}
	return out, nil
}

// Free frees what Send has sent and no step has used up.
func (in Input) Free() {
	if in.sent != nil {
		in.sent.pixels.Free()
		in.sent.positives.Free()
		in.sent.second.Free()
		in.sent.received.free()
		in.sent.received = images{}
	}
}

func (i images) free() {
	i.pixels.Free()
	i.positives.Free()
	i.second.Free()
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
	if x.images = in.sent.received; x.pixels == nil {
		x.images = in.sent.receive(s, t.model)
	}
	x.ids, x.attention, err = model.Texts(s, in.IDs, t.vocabulary.Pad, t.model.Config)
	return x, err
}

// receive takes the images off their way.
func (u *sent) receive(s *torch.Scope, m *model.Model) (i images) {
	i.pixels = model.Received(s, u.pixels, m)
	if u.positives != nil {
		i.positives = model.Received(s, u.positives, m)
	}
	if u.second != nil {
		i.second = model.Received(s, u.second, m)
	}
	return i
}

// hold keeps the images on the device for a second pass. Input.Free frees them.
func (u *sent) hold(s *torch.Scope, m *model.Model) {
	if u == nil || u.received.pixels != nil {
		return
	}
	i := u.receive(s, m)
	for _, x := range []*torch.Tensor{i.pixels, i.positives, i.second} {
		if x != nil {
			s.Keep(x)
		}
	}
	u.received = i
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
	case in.sent == nil && t.options.ITC.Loss == Triple && len(in.Second) != n*image:
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
