package model

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/content/token"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
)

const (
	paddingID = 0 // of the vocabulary

	minTemperature = 0.001
	maxTemperature = 0.5
)

// Param is a named weight.
type Param struct {
	Name   string
	Tensor *torch.Tensor

	factor *torch.Tensor // of products, if that is another tensor
}

// Model is a network of the ALBEF architecture. Its owner calls Free.
type Model struct {
	Config Config
	Vocab  []string // of WordPiece; may be nil when the caller tokenises
	// Calibration belongs to these weights alone: training drops it. nil: there is none.
	Calibration *Calibration
	Card        string // JSON about the training of these weights; may be empty

	worker      *torch.Worker
	params      []Param
	vision      vision
	text        text
	visionProj  linear
	textProj    linear
	match       linear
	masked      *maskedHead // nil in a model without MLM, such as a fine-tuned Con-D
	temperature *torch.Tensor
	bias        *torch.Tensor // of similarities in the sigmoid loss; nil in a model that was not trained with it
}

// maskedHead predicts masked words; its decoder is the table of word embeddings.
type maskedHead struct {
	dense linear
	norm  norm
	bias  *torch.Tensor
}

// New makes a model with weights drawn from seed, ready to be trained.
func New(ctx context.Context, w *torch.Worker, c Config, seed uint64) (*Model, error) {
	m, err := build(ctx, w, c, &source{values: fromSeed(seed), dtype: torch.Float32, train: true}, parts{masked: true})
	if err != nil {
		return nil, fmt.Errorf("making a model: %w", err)
	}
	return m, nil
}

// parts are those that not every model has.
type parts struct{ masked, bias bool }

// biasName is the tensor of the sigmoid loss's bias.
const biasName = "itc_bias"

// build makes a model of the tensors of a source.
func build(ctx context.Context, w *torch.Worker, c Config, src *source, with parts) (*Model, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Model{Config: c, worker: w}
	err := w.Do(ctx, func(s *torch.Scope) error {
		src.scope = s
		m.vision = newVision(src, c)
		m.text = newText(src, c)
		m.visionProj = newLinear(src, "vision_proj", c.VisionDim, c.EmbedDim, fanIn)
		m.textProj = newLinear(src, "text_proj", c.TextHidden, c.EmbedDim, fanIn)
		m.match = newLinear(src, "itm_head", c.TextHidden, 2, fanIn)
		m.temperature = src.tensor("temp", warmth)
		if with.masked {
			m.masked = newMaskedHead(src, c)
		}
		if with.bias {
			m.bias = src.tensor(biasName, odds)
		}
		return src.err()
	})
	m.params = src.params
	slices.SortFunc(m.params, byName)
	if err != nil {
		m.Free()
		return nil, err
	}
	return m, nil
}

func newMaskedHead(src *source, c Config) *maskedHead {
	const name = "text_encoder.cls.predictions."
	return &maskedHead{
		dense: newLinear(src, name+"transform.dense", c.TextHidden, c.TextHidden, normal),
		norm:  newNorm(src, name+"transform.LayerNorm", c.TextHidden, bertEps),
		bias:  src.tensor(name+"bias", zeros, c.VocabSize),
	}
}

// AddBias gives the model the bias of the sigmoid loss, SigLIP's -10, if it has none. It takes gradients.
func (m *Model) AddBias(ctx context.Context) error {
	if m.bias != nil {
		return nil
	}
	src := &source{values: fromSeed(0), dtype: m.params[0].Tensor.DType(), train: true}
	err := m.worker.Do(ctx, func(s *torch.Scope) error {
		src.scope = s
		m.bias = src.tensor(biasName, odds)
		return src.err()
	})
	if err != nil {
		return fmt.Errorf("adding the bias of the sigmoid loss: %w", err)
	}
	m.params = append(m.params, src.params...)
	slices.SortFunc(m.params, byName)
	return nil
}

// Free frees the weights.
func (m *Model) Free() { free(m.params) }

func free(params []Param) {
	for _, p := range params {
		p.Tensor.Free()
		p.factor.Free()
	}
}

func byName(a, b Param) int { return cmp.Compare(a.Name, b.Name) }

// Params lists the weights by name, each once. The reference code has some under several names, such as the MLM
// decoder, which is the table of word embeddings.
func (m *Model) Params() []Param { return slices.Clone(m.params) }

// Worker returns the worker that holds the model's tensors.
func (m *Model) Worker() *torch.Worker { return m.worker }

// SetTrainable sets whether the weights take gradients.
func (m *Model) SetTrainable(on bool) {
	for _, p := range m.params {
		p.Tensor.SetRequiresGrad(on)
	}
}

// SetDropout sets the share that the text encoder drops from now on, in [0, 1). It is 0.1 in the papers' training, and
// 0 when a model is used. The vision transformer drops nothing.
func (m *Model) SetDropout(share float64) { m.text.drop.share = share }

// Dropout returns the value of [Model.SetDropout]; 0 at first.
func (m *Model) Dropout() float64 { return m.text.drop.share }

// Words returns the tokenizer of the model, which prepares captions as in the model's training.
func (m *Model) Words() (*token.WordPiece, error) { return wordsOf(m.Vocab, m.Config) }

func wordsOf(vocab []string, c Config) (*token.WordPiece, error) {
	words, err := token.NewWordPiece(vocab)
	if err != nil {
		return nil, err
	}
	words.PrepareCaptions(c.CaptionWords)
	return words, nil
}

// Fingerprint returns an identifier of the weights, the configuration and the vocabulary.
func (m *Model) Fingerprint(ctx context.Context) (string, error) {
	config, err := json.Marshal(m.Config)
	if err != nil {
		return "", fmt.Errorf("fingerprinting a model: %w", err)
	}
	return fingerprint(ctx, m.worker, m.params, string(config), strings.Join(m.Vocab, "\n"))
}

// FingerprintOf returns the fingerprint of the model at the time when [Model.Export] returned these tensors. It needs
// no device.
func (m *Model) FingerprintOf(tensors []safetensors.NamedTensor) (string, error) {
	config, err := json.Marshal(m.Config)
	if err != nil {
		return "", fmt.Errorf("fingerprinting a model: %w", err)
	}
	h := newFingerprint(string(config), strings.Join(m.Vocab, "\n"))
	for _, t := range tensors {
		h.add(t.Name, t.Tensor)
	}
	return h.sum(), nil
}

// fingerprint hashes texts and weights.
func fingerprint(ctx context.Context, w *torch.Worker, params []Param, texts ...string) (string, error) {
	h := newFingerprint(texts...)
	err := w.Do(ctx, func(*torch.Scope) error {
		for _, p := range params {
			t, err := export(p.Tensor)
			if err != nil {
				return err
			}
			h.add(p.Name, t)
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("fingerprinting a model: %w", err)
	}
	return h.sum(), nil
}

// hashing is a fingerprint in progress: of texts, and of weights with their names, each preceded by its length.
type hashing struct{ hash.Hash }

func newFingerprint(texts ...string) hashing {
	h := hashing{sha256.New()}
	for _, t := range texts {
		h.text(t)
	}
	return h
}

func (h hashing) text(s string) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(s))))
	io.WriteString(h, s) //nolint:errcheck // a hash takes everything
}

func (h hashing) add(name string, t safetensors.Tensor) {
	h.text(name)
	h.text(exported[t.DType].String() + " " + shapeString(t.Shape))
	h.Write(t.Data)
}

func (h hashing) sum() string { return hex.EncodeToString(h.Sum(nil)[:16]) }
