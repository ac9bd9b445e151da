package model

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/token"
	"github.com/pairstream/pairstream/internal/torch"
)

// Matcher says how likely images and texts match. It is a model with a matching head, or a TorchScript program.
type Matcher struct {
	// Config holds what its inputs must be; of a program only image_size, text_tokens, caption_words and vocab_size.
	Config Config
	Vocab  []string

	worker      *torch.Worker
	fingerprint string
	pad         int32
	match       matchFunc
	free        func()
}

// matchFunc returns the probability of each pair of rows of pixels [N, 3, S, S] and ids [N, L].
type matchFunc func(s *torch.Scope, pixels, ids, mask *torch.Tensor, pairs []Pair, part int) ([]float32, error)

// OpenMatcher loads a matcher from a file: TorchScript if it ends in .pt, .ts or .torchscript, else safetensors.
func OpenMatcher(ctx context.Context, w *torch.Worker, path string) (*Matcher, error) {
	if isScript(path) {
		return NewScriptMatcher(ctx, w, path)
	}
	m, err := Load(ctx, w, path, LoadOptions{})
	if err != nil {
		return nil, err
	}
	matcher, err := NewMatcher(ctx, m)
	if err != nil {
		m.Free()
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	matcher.free = m.Free
	return matcher, nil
}

func isScript(path string) bool {
	return slices.Contains([]string{".pt", ".ts", ".torchscript"}, filepath.Ext(path))
}

// NewMatcher makes a matcher of a model with its vocabulary. The model stays the caller's.
func NewMatcher(ctx context.Context, m *Model) (*Matcher, error) {
	fingerprint, err := m.Fingerprint(ctx)
	if err != nil {
		return nil, err
	}
	match := func(s *torch.Scope, pixels, ids, mask *torch.Tensor, pairs []Pair, part int) ([]float32, error) {
		pixels = s.To(pixels, m.params[0].Tensor.DType())
		logits, err := Score(s, m, Encoded{Hidden: m.Text(s, ids, mask), Mask: mask, Tokens: m.Image(s, pixels)}, pairs, part)
		probabilities := make([]float32, len(logits))
		for i, l := range logits {
			probabilities[i] = l.Probability()
		}
		return probabilities, err
	}
	return newMatcher(&Matcher{Config: m.Config, Vocab: m.Vocab, worker: m.worker, fingerprint: fingerprint, match: match, free: func() {}})
}

func newMatcher(m *Matcher) (*Matcher, error) {
	pad := slices.Index(m.Vocab, "[PAD]")
	if pad < 0 {
		return nil, fmt.Errorf("making a matcher: its vocabulary of %d tokens has no [PAD]", len(m.Vocab))
	}
	m.pad = int32(pad)
	return m, nil
}

// Fingerprint returns an identifier of the weights, or of the program.
func (m *Matcher) Fingerprint() string { return m.fingerprint }

// Words returns the tokenizer, which prepares captions as in the matcher's training.
func (m *Matcher) Words() (*token.WordPiece, error) { return wordsOf(m.Vocab, m.Config) }

// Free frees what [OpenMatcher] or [NewScriptMatcher] loaded.
func (m *Matcher) Free() { m.free() }

// Match returns the probability that a text is true of an image, for each pair. pixels are 3 x S x S float32 for each of
// len(ids) images, ids the tokens of as many texts, not padded. Pairs go through the network part by part.
func (m *Matcher) Match(ctx context.Context, pixels []float32, ids [][]int32, pairs []Pair, part int) ([]float32, error) {
	images, err := send(m.worker, m.Config, pixels, len(ids)) // while the worker computes for another
	if err != nil {
		return nil, err
	}
	defer images.Free()
	var probabilities []float32
	err = m.worker.Do(ctx, func(s *torch.Scope) error {
		received := s.Receive(images)
		padded, mask, err := Texts(s, ids, m.pad, m.Config)
		if err != nil {
			return err
		}
		s.NoGrad(func() { probabilities, err = m.match(s, received, padded, mask, pairs, part) })
		return err
	})
	return probabilities, err
}
