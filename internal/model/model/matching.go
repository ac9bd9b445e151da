package model

import (
	"errors"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// Pair names an image and a text by their rows.
type Pair struct{ Image, Text int32 }

// Logits are the matching head's outputs for a pair.
type Logits struct{ Mismatch, Match float32 }

// Encoded holds texts and images to be paired.
type Encoded struct {
	Hidden *torch.Tensor // of the texts, from [Model.Text]
	Mask   *torch.Tensor // of the texts, from [Texts]
	Tokens *torch.Tensor // of the images, from [Model.Image]
}

// Score runs the matching head over pairs, part by part.
func Score(s *torch.Scope, m *Model, e Encoded, pairs []Pair, part int) ([]Logits, error) {
	var logits []Logits
	var failed error
	s.NoGrad(func() {
		logits, failed = scoreParts(s, m.Pairing(s, e.Hidden, e.Mask, m.View(s, e.Tokens)), pairs, part)
	})
	return logits, failed
}

// scoreParts scores pairs part by part.
func scoreParts(s *torch.Scope, pairing *Pairing, pairs []Pair, part int) ([]Logits, error) {
	logits := make([]Logits, 0, len(pairs))
	for len(pairs) > 0 {
		n := min(part, len(pairs))
		err := s.Nest(func(s *torch.Scope) error {
			logits = append(logits, scorePart(s, pairing, pairs[:n], placesFor(s, n, part))...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		pairs = pairs[n:]
	}
	return logits, nil
}

// placesFor returns how many rows are computed for n of a block. The kernels that take any length compute rows apart, so
// there is nothing to fill up. Elsewhere the number of rows decides how libtorch divides the work: all blocks have one size.
func placesFor(s *torch.Scope, n, block int) int {
	if s.LengthStep() == 1 {
		return n
	}
	return block
}

// scorePart scores a part, filled up with its first pair.
func scorePart(s *torch.Scope, pairing *Pairing, pairs []Pair, part int) []Logits {
	texts, images := rowsOf(pairs, part)
	values := pairing.MatchLogits(s, texts, images).Float32s()
	logits := make([]Logits, len(pairs))
	for i := range logits {
		logits[i] = Logits{Mismatch: values[2*i], Match: values[2*i+1]}
	}
	return logits
}

// rowsOf lists the rows of up to a part of pairs, followed by repetitions of the first pair's.
func rowsOf(pairs []Pair, part int) (texts, images []int64) {
	texts, images = make([]int64, part), make([]int64, part)
	for i := range part {
		p := pairs[0]
		if i < len(pairs) {
			p = pairs[i]
		}
		texts[i], images[i] = int64(p.Text), int64(p.Image)
	}
	return texts, images
}

// Probability returns the softmax's share of a match.
func (l Logits) Probability() float32 {
	return float32(1 / (1 + math.Exp(float64(l.Mismatch)-float64(l.Match))))
}

// ErrInput marks texts or images that do not fit the model.
var ErrInput = errors.New("input does not fit the model")

// CheckTexts verifies that every row has tokens, no more than the model has positions, and ids within the vocabulary.
func CheckTexts(rows [][]int32, c Config) error {
	for i, row := range rows {
		if len(row) == 0 || len(row) > c.MaxPositions {
			return fmt.Errorf("%w: text %d has %d tokens, want 1..%d", ErrInput, i, len(row), c.MaxPositions)
		}
		for _, id := range row {
			if id < 0 || int(id) >= c.VocabSize {
				return fmt.Errorf("%w: text %d has token id %d, want 0..%d", ErrInput, i, id, c.VocabSize-1)
			}
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("%w: no texts", ErrInput)
	}
	return nil
}

// Texts pads rows of token ids to the longest of them, and on a GPU to a multiple of 8. It marks the tokens with 1 and
// the padding with 0. Both results are [N, L] Int64. Attention ignores padding, so a shorter padding gives the same
// features with less work.
func Texts(s *torch.Scope, rows [][]int32, pad int32, c Config) (ids, mask *torch.Tensor, err error) {
	if err := CheckTexts(rows, c); err != nil {
		return nil, nil, err
	}
	longest := 0
	for _, row := range rows {
		longest = max(longest, len(row))
	}
	ids, mask = padTo(s, rows, pad, stepped(s, longest, c))
	return ids, mask, nil
}

// stepped rounds a length up to the device's step.
func stepped(s *torch.Scope, length int, c Config) int {
	step := s.LengthStep()
	return min((length+step-1)/step*step, c.MaxPositions)
}

// padTo pads rows of token ids to a length.
func padTo(s *torch.Scope, rows [][]int32, pad int32, longest int) (ids, mask *torch.Tensor) {
	padded := make([]int64, 0, len(rows)*longest)
	marks := make([]int64, len(rows)*longest)
	for i, row := range rows {
		for j, id := range row {
			padded = append(padded, int64(id))
			marks[i*longest+j] = 1
		}
		for range longest - len(row) {
			padded = append(padded, int64(pad))
		}
	}
	n, l := int64(len(rows)), int64(longest)
	return s.Int64s(padded, n, l), s.Int64s(marks, n, l)
}

// Images makes a tensor [N, 3, S, S] of pixels, in the precision of the model.
func Images(s *torch.Scope, pixels []float32, n int, m *Model) (*torch.Tensor, error) {
	u, err := Send(pixels, n, m)
	if err != nil {
		return nil, err
	}
	return Received(s, u, m), nil
}

// Send starts to copy the pixels of n images to the model's device, for [Received]. It does not wait for the model's
// worker.
func Send(pixels []float32, n int, m *Model) (*torch.Upload, error) {
	return send(m.worker, m.Config, pixels, n)
}

func send(w *torch.Worker, c Config, pixels []float32, n int) (*torch.Upload, error) {
	side := c.ImageSize
	if n <= 0 || len(pixels) != n*3*side*side {
		return nil, fmt.Errorf("%w: %d pixel values, want %d x 3 x %d x %d", ErrInput, len(pixels), n, side, side)
	}
	return w.Upload(pixels, int64(n), 3, int64(side), int64(side))
}

// Received returns the tensor of [Images], for images that were sent.
func Received(s *torch.Scope, u *torch.Upload, m *Model) *torch.Tensor {
	return s.To(s.Receive(u), m.Params()[0].Tensor.DType())
}
