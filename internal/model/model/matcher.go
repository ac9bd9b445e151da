package model

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// Matcher computes the probability that images and texts match. It is a model with a matching head, or a TorchScript
// program.
type Matcher struct {
	// Config describes the inputs; for a program only image_size, text_tokens, caption_words and vocab_size.
	Config Config
	Vocab  []string

	worker      *torch.Worker
	fingerprint string
	pad         int32
	match       matchFunc
	model       *Model // nil: a program, whose encoders cannot run separately
	free        func()
}

// matchFunc returns the probability of each pair of rows of pixels [N, 3, S, S] and ids [N, L]. With a block, that many
// rows are encoded at once; N is a multiple of it.
type matchFunc func(s *torch.Scope, pixels, ids, mask *torch.Tensor, pairs []Pair, part, block int) ([]float32, error)

// OpenMatcher loads a matcher from a file: TorchScript if it ends in .pt, .ts or .torchscript, else safetensors.
func OpenMatcher(ctx context.Context, w *torch.Worker, path string) (*Matcher, error) {
	if isScript(path) {
		return NewScriptMatcher(ctx, w, path)
	}
	m, err := Load(ctx, w, path, LoadOptions{Frozen: true})
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

// NewMatcher makes a matcher of a model with its vocabulary. The caller keeps the model.
func NewMatcher(ctx context.Context, m *Model) (*Matcher, error) {
	fingerprint, err := m.Fingerprint(ctx)
	if err == nil && m.Calibration != nil { // it changes the answers
		h := newFingerprint(fingerprint, m.Calibration.text())
		fingerprint = h.sum()
	}
	if err != nil {
		return nil, err
	}
	calibration := m.Calibration
	match := func(s *torch.Scope, pixels, ids, mask *torch.Tensor, pairs []Pair, part, block int) ([]float32, error) {
		pixels = s.To(pixels, m.params[0].Tensor.DType())
		e := Encoded{Hidden: inBlocks(s, block, ids, func(at, n int64) *torch.Tensor {
			return m.Text(s, s.Narrow(ids, 0, at, n), s.Narrow(mask, 0, at, n))
		}), Mask: mask, Tokens: inBlocks(s, block, pixels, func(at, n int64) *torch.Tensor { return m.Image(s, s.Narrow(pixels, 0, at, n)) })}
		logits, err := Score(s, m, e, pairs, part)
		probabilities := make([]float32, len(logits))
		for i, l := range logits {
			probabilities[i] = calibration.Probability(l)
		}
		return probabilities, err
	}
	return newMatcher(&Matcher{Config: m.Config, Vocab: m.Vocab, worker: m.worker, fingerprint: fingerprint, match: match, model: m, free: func() {}})
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

// OnProcessor reports whether the matcher computes on the processor rather than on a GPU.
func (m *Matcher) OnProcessor() bool { return m.worker.Device() == "cpu" }

// Words returns the tokenizer, which prepares captions as in the matcher's training.
func (m *Matcher) Words() (*token.WordPiece, error) { return wordsOf(m.Vocab, m.Config) }

// Free frees what [OpenMatcher] or [NewScriptMatcher] loaded.
func (m *Matcher) Free() { m.free() }

// Match returns the probability that a text is true of an image, for each pair. pixels are 3 x S x S float32 for each
// of len(ids) images, ids the tokens of as many texts, not padded. Pairs go through the network part by part.
func (m *Matcher) Match(ctx context.Context, pixels []float32, ids [][]int32, pairs []Pair, part int) ([]float32, error) {
	return m.run(ctx, pixels, len(ids), func(s *torch.Scope, pixels *torch.Tensor) ([]float32, error) {
		padded, mask, err := Texts(s, ids, m.pad, m.Config)
		if err != nil {
			return nil, err
		}
		return m.match(s, pixels, padded, mask, pairs, part, 0)
	})
}

// fixedBlock is the number of images, and of texts, that [Matcher.MatchFixed] encodes at once.
const fixedBlock = 16

// MatchFixed is [Matcher.Match], but gives a pair the same bits whatever else is in the call. Images and texts are
// encoded in blocks of one size, filled up with black and with the first text, and texts are padded to the greatest
// length that the model takes. The numbers of images and texts may differ.
func (m *Matcher) MatchFixed(ctx context.Context, pixels []float32, ids [][]int32, pairs []Pair, part int) ([]float32, error) {
	values := 3 * m.Config.ImageSize * m.Config.ImageSize
	images := len(pixels) / values
	if err := m.checkFixed(ids); err != nil {
		return nil, err
	}
	pixels = append(slices.Clip(pixels), make([]float32, missing(images)*values)...)
	images += missing(images)
	ids = filledUp(ids)
	return m.run(ctx, pixels, images, func(s *torch.Scope, pixels *torch.Tensor) ([]float32, error) {
		padded, mask := padTo(s, ids, m.pad, stepped(s, m.Config.TextTokens, m.Config))
		return m.match(s, pixels, padded, mask, pairs, part, fixedBlock)
	})
}

// checkFixed verifies texts that will be padded to the greatest length that the model takes.
func (m *Matcher) checkFixed(ids [][]int32) error {
	for i, row := range ids {
		if len(row) > m.Config.TextTokens {
			return fmt.Errorf("%w: text %d has %d tokens, want at most %d", ErrInput, i, len(row), m.Config.TextTokens)
		}
	}
	return CheckTexts(ids, m.Config)
}

// missing returns the number of rows that n lacks to whole blocks.
func missing(n int) int { return (fixedBlock - n%fixedBlock) % fixedBlock }

// filledUp fills the last block of texts up with the first one.
func filledUp(ids [][]int32) [][]int32 {
	ids = slices.Clip(ids)
	for range missing(len(ids)) {
		ids = append(ids, ids[0])
	}
	return ids
}

// run sends pixels to the device and computes there.
func (m *Matcher) run(ctx context.Context, pixels []float32, images int,
	match func(s *torch.Scope, pixels *torch.Tensor) ([]float32, error),
) (probabilities []float32, err error) {
	sent, err := send(m.worker, m.Config, pixels, images) // while the worker computes for another caller
	if err != nil {
		return nil, err
	}
	defer sent.Free()
	err = m.worker.Do(ctx, func(s *torch.Scope) error {
		received := s.Receive(sent)
		var err error
		s.NoGrad(func() { probabilities, err = match(s, received) })
		return err
	})
	return probabilities, err
}

// inBlocks encodes the rows of x block by block, or all at once without one.
func inBlocks(s *torch.Scope, block int, x *torch.Tensor, encode func(at, n int64) *torch.Tensor) *torch.Tensor {
	rows := x.Size(0)
	if block == 0 {
		return encode(0, rows)
	}
	var parts []*torch.Tensor
	for at := int64(0); at < rows; at += int64(block) {
		parts = append(parts, encode(at, int64(block)))
	}
	return s.Cat(0, parts...)
}

// Optional keys in the metadata of a weights file.
const (
	calibrationKey = "pairstream.calibration" // JSON of Calibration
	cardKey        = "pairstream.card"        // JSON from the trainer of the weights
)

// readAbout removes calibration and card from a file's metadata and returns them.
func (m *Model) readAbout(f *safetensors.File) error {
	m.Card = f.Metadata[cardKey]
	text, ok := f.Metadata[calibrationKey]
	if !ok {
		return nil
	}
	c := new(Calibration)
	if err := json.Unmarshal([]byte(text), c); err != nil {
		return fmt.Errorf("decoding metadata %s: %w", calibrationKey, err)
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("reading metadata %s: %w", calibrationKey, err)
	}
	m.Calibration = c
	return nil
}

// writeAbout adds calibration and card to a file's metadata, if there are any.
func (m *Model) writeAbout(metadata map[string]string) error {
	if m.Card != "" {
		metadata[cardKey] = m.Card
	}
	if m.Calibration == nil {
		return nil
	}
	text, err := json.Marshal(m.Calibration)
	if err != nil {
		return fmt.Errorf("encoding the calibration: %w", err)
	}
	metadata[calibrationKey] = string(text)
	return nil
}
