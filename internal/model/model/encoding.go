package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// Encoding is the encoded form of an image or a text that a [Matcher] can match with others. It is a function of the
// weights and the image or text alone, to the last bit on a CPU, whatever else was in its batch.
type Encoding struct {
	// Tokens are float16 values of every token, row by row: for an image the output of its encoder, for a text its
	// state in the fusion encoder before the first cross-attention.
	Tokens []uint16
	// Vector is the unit vector in the space of both, in which similar images and texts are near.
	Vector []float32
	// Length is the number of a text's tokens. A model with one fusion layer keeps only the first of them.
	Length int
}

// Encodes reports whether the encoders can run separately. Those of a TorchScript program cannot.
func (m *Matcher) Encodes() bool { return m.model != nil }

// EncodeImages encodes images, 3 x S x S float32 each, in blocks ([placesFor]).
func (m *Matcher) EncodeImages(ctx context.Context, pixels []float32) (encodings []Encoding, err error) {
	values := 3 * m.Config.ImageSize * m.Config.ImageSize
	n := len(pixels) / values
	if n == 0 || n*values != len(pixels) {
		return nil, fmt.Errorf("%w: %d pixel values, want images of %d", ErrInput, len(pixels), values)
	}
	pixels = append(slices.Clip(pixels), make([]float32, missing(n)*values)...)
	_, err = m.run(ctx, pixels, n+missing(n), func(s *torch.Scope, pixels *torch.Tensor) ([]float32, error) {
		pixels = s.To(pixels, m.dtype())
		return nil, inTurn(s, n, func(s *torch.Scope, at, rows, block int) {
			tokens := m.model.Image(s, s.Narrow(pixels, 0, int64(at), int64(block)))
			encodings = appendEncodings(encodings, rows, tokens, m.model.ImageFeature(s, tokens))
		})
	})
	return encodings, err
}

// EncodeTexts encodes the token ids of texts, not padded, in blocks of one size. They are padded to the longest text
// that the model takes.
func (m *Matcher) EncodeTexts(ctx context.Context, ids [][]int32) (encodings []Encoding, err error) {
	if err := m.checkFixed(ids); err != nil {
		return nil, err
	}
	filled := filledUp(ids)
	err = m.worker.Do(ctx, func(s *torch.Scope) (err error) {
		s.NoGrad(func() {
			padded, mask := padTo(s, filled, m.pad, stepped(s, m.Config.TextTokens, m.Config))
			err = inTurn(s, len(ids), func(s *torch.Scope, at, rows, block int) {
				marks := s.Narrow(mask, 0, int64(at), int64(block))
				hidden := m.model.Text(s, s.Narrow(padded, 0, int64(at), int64(block)), marks)
				attended := m.model.Pairing(s, hidden, marks, View{}).attended
				encodings = appendEncodings(encodings, rows, attended, m.model.TextFeature(s, hidden))
			})
		})
		return err
	})
	for i := range encodings {
		used := min(len(ids[i])*m.Config.TextHidden, len(encodings[i].Tokens)) // without the padding
		encodings[i].Tokens, encodings[i].Length = slices.Clone(encodings[i].Tokens[:used]), len(ids[i])
	}
	return encodings, err
}

func (m *Matcher) dtype() torch.DType { return m.model.params[0].Tensor.DType() }

// inTurn encodes n rows block by block, and frees each block's results. It passes the rows that count, and the block's.
func inTurn(s *torch.Scope, n int, encode func(s *torch.Scope, at, rows, block int)) error {
	for at := 0; at < n; at += fixedBlock {
		err := s.Nest(func(s *torch.Scope) error {
			rows := min(fixedBlock, n-at)
			encode(s, at, rows, placesFor(s, rows, fixedBlock))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// appendEncodings takes the first rows of a block.
func appendEncodings(to []Encoding, rows int, tokens, vectors *torch.Tensor) []Encoding {
	bits, units := tokens.Float16s(), vectors.Float32s()
	block := int(vectors.Size(0))
	long, wide := len(bits)/block, len(units)/block
	for i := range rows {
		to = append(to, Encoding{Tokens: slices.Clone(bits[i*long : (i+1)*long]), Vector: slices.Clone(units[i*wide : (i+1)*wide])})
	}
	return to
}

// MatchEncoded returns the probability that a text is true of an image, for each pair of encodings. A pair has the same
// bits whatever else is in the call, and whether its encodings were cached or new.
func (m *Matcher) MatchEncoded(ctx context.Context, images, texts []Encoding, pairs []Pair, part int) (probabilities []float32, err error) {
	err = m.worker.Do(ctx, func(s *torch.Scope) (err error) {
		s.NoGrad(func() {
			attended, mask := m.padded(s, texts)
			view := m.model.View(s, m.tokens(s, images))
			var logits []Logits
			logits, err = scoreParts(s, &Pairing{model: m.model, prepared: prepared{
				attended: attended, scores: m.model.text.scores(s, mask), images: view.layers,
			}}, pairs, part)
			for _, l := range logits {
				probabilities = append(probabilities, m.model.Calibration.Probability(l))
			}
		})
		return err
	})
	return probabilities, err
}

// tokens puts images into one tensor, in whole blocks.
func (m *Matcher) tokens(s *torch.Scope, images []Encoding) *torch.Tensor {
	long := m.Config.imageTokens() * m.Config.VisionDim
	n := len(images) + missing(len(images))
	values := make([]uint16, n*long)
	for i, e := range images {
		copy(values[i*long:(i+1)*long], e.Tokens)
	}
	t := s.Zeros(m.dtype(), int64(n), int64(m.Config.imageTokens()), int64(m.Config.VisionDim))
	t.SetFloat16s(values)
	return t
}

// padded puts texts into one tensor, in whole blocks, and marks their tokens.
func (m *Matcher) padded(s *torch.Scope, texts []Encoding) (attended, mask *torch.Tensor) {
	length, wide := stepped(s, m.Config.TextTokens, m.Config), m.Config.TextHidden
	rows := length
	if m.Config.TextLayers-m.Config.FusionLayer == 1 {
		rows = 1
	}
	n := len(texts) + missing(len(texts))
	values, marks := make([]uint16, n*rows*wide), make([]int64, n*length)
	for i := range n {
		marks[i*length] = 1 // of a row that fills a block
		if i >= len(texts) {
			continue
		}
		copy(values[i*rows*wide:], texts[i].Tokens)
		for k := range texts[i].Length {
			marks[i*length+k] = 1
		}
	}
	attended = s.Zeros(m.dtype(), int64(n), int64(rows), int64(wide))
	attended.SetFloat16s(values)
	return attended, s.Int64s(marks, int64(n), int64(length))
}
