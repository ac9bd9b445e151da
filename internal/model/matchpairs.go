package model

import (
	"math"

	"github.com/pairstream/pairstream/internal/torch"
)

// Pair names an image and a text by their rows.
type Pair struct{ Image, Text int32 }

// Logits are the matching head's outputs for a pair.
type Logits struct{ Mismatch, Match float32 }

// Encoded holds texts and images that will be paired.
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
			logits = append(logits, scorePart(s, pairing, pairs[:n], part)...)
			return nil
		})
		if err != nil {
			return nil, err
		}
		pairs = pairs[n:]
	}
	return logits, nil
}

// scorePart scores a part and fills it up with its first pair.
func scorePart(s *torch.Scope, pairing *Pairing, pairs []Pair, part int) []Logits {
	texts, images := rowsOf(pairs, part)
	values := pairing.MatchLogits(s, texts, images).Float32s()
	logits := make([]Logits, len(pairs))
	for i := range logits {
		logits[i] = Logits{Mismatch: values[2*i], Match: values[2*i+1]}
	}
	return logits
}

// rowsOf lists the rows of up to a part of pairs, and repeats those of the first pair behind them.
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
