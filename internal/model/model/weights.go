package model

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// These are the keys in the metadata of a weights file.
const (
	configKey = "pairstream.config" // JSON of Config
	vocabKey  = "pairstream.vocab"  // the vocabulary, a token a line
)

// LoadOptions supply facts that files not written by [Model.Save] lack.
type LoadOptions struct {
	Prefix    string      // prefix of the tensors' names
	Config    *Config     // nil: from the metadata, otherwise from the shapes, for published widths only
	ImageSize int         // pixels on a side, to which the position embeddings are resized; 0: the file's own
	Vocab     []string    // nil: from the metadata
	DType     torch.DType // zero: Float32; or Float64
	Trainable bool        // whether the weights take gradients
	Frozen    bool        // the weights never change: products are then faster, with other last bits
}

// Load reads a weights file.
func Load(ctx context.Context, w *torch.Worker, path string, o LoadOptions) (*Model, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := FromFile(ctx, w, f, o)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return m, nil
}

// FromFile makes a model of an open weights file. It ignores tensors that the model does not know (queues and momentum
// copies of ALBEF's checkpoints).
func FromFile(ctx context.Context, w *torch.Worker, f *safetensors.File, o LoadOptions) (*Model, error) {
	c, err := configOf(f, o)
	if err != nil {
		return nil, err
	}
	if o.ImageSize != 0 {
		c.ImageSize = o.ImageSize
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	rename := func(name string) []string { return namesOf(o.Prefix, name) }
	if err := checkTied(f, rename); err != nil {
		return nil, err
	}
	src := &source{values: fromFile(f, rename, o.ImageSize/c.PatchSize), dtype: o.DType, train: o.Trainable, frozen: o.Frozen}
	_, biased := f.Tensor(rename(biasName)[0])
	m, err := build(ctx, w, c, src, parts{masked: hasMasked(f, rename), bias: biased})
	if err != nil {
		return nil, err
	}
	if err := m.readAbout(f); err != nil {
		m.Free()
		return nil, err
	}
	m.Vocab = o.Vocab
	if text, ok := f.Metadata[vocabKey]; ok && m.Vocab == nil {
		m.Vocab = strings.Split(text, "\n")
	}
	if m.Vocab != nil && len(m.Vocab) != c.VocabSize {
		m.Free()
		return nil, fmt.Errorf("the vocabulary has %d tokens, want vocab_size, %d", len(m.Vocab), c.VocabSize)
	}
	return m, nil
}

// namesOf lists the names that a tensor may have in a file. Models that were fine-tuned without MLM have the text
// encoder one level higher.
func namesOf(prefix, name string) []string {
	const deep, high = "text_encoder.bert.", "text_encoder."
	names := []string{prefix + name}
	if rest, ok := strings.CutPrefix(name, deep); ok {
		names = append(names, prefix+high+rest)
	}
	return names
}

const maskedHeadName = "text_encoder.cls.predictions."

func hasMasked(f *safetensors.File, rename func(string) []string) bool {
	prefix := rename(maskedHeadName)[0]
	for _, name := range f.Names() {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// checkTied refuses a model whose MLM decoder is not the table of word embeddings, because one of the two would be
// lost.
func checkTied(f *safetensors.File, rename func(string) []string) error {
	for alias, name := range map[string]string{
		maskedHeadName + "decoder.weight": "text_encoder.bert.embeddings.word_embeddings.weight",
		maskedHeadName + "decoder.bias":   maskedHeadName + "bias",
	} {
		copied, ok := f.Tensor(rename(alias)[0])
		if !ok {
			continue
		}
		for _, candidate := range rename(name) {
			if t, ok := f.Tensor(candidate); ok && !bytes.Equal(t.Data, copied.Data) {
				return fmt.Errorf("tensor %s differs from %s, want the same values: the decoder shares them", rename(alias)[0], candidate)
			}
		}
	}
	return nil
}

func configOf(f *safetensors.File, o LoadOptions) (Config, error) {
	if o.Config != nil {
		return *o.Config, nil
	}
	text, ok := f.Metadata[configKey]
	if !ok {
		return configFromShapes(f, o.Prefix)
	}
	var c Config
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Config{}, fmt.Errorf("decoding metadata %s: %w", configKey, err)
	}
	return c, nil
}

// Save writes the weights, the configuration and the vocabulary to one file, which appears whole or not at all.
func (m *Model) Save(ctx context.Context, path string) error {
	tensors, err := m.Export(ctx)
	if err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	metadata, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("saving %s: %w", path, err)
	}
	return safetensors.WriteFile(path, tensors, metadata)
}

// Metadata returns the metadata of a weights file of the model.
func (m *Model) Metadata() (map[string]string, error) {
	config, err := json.Marshal(m.Config)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	metadata := map[string]string{configKey: string(config)}
	if m.Vocab != nil {
		metadata[vocabKey] = strings.Join(m.Vocab, "\n")
	}
	return metadata, m.writeAbout(metadata)
}

// Export returns copies of the weights, for a file.
func (m *Model) Export(ctx context.Context) ([]safetensors.NamedTensor, error) {
	var tensors []safetensors.NamedTensor
	err := m.worker.Do(ctx, func(*torch.Scope) error {
		for _, p := range m.params {
			t, err := export(p.Tensor)
			if err != nil {
				return fmt.Errorf("copying tensor %s: %w", p.Name, err)
			}
			tensors = append(tensors, safetensors.NamedTensor{Name: p.Name, Tensor: t})
		}
		return nil
	})
	return tensors, err
}

// exported are the types of the format that weights are exported in.
var exported = map[string]torch.DType{"F32": torch.Float32, "F64": torch.Float64}

func export(t *torch.Tensor) (safetensors.Tensor, error) {
	switch d := t.DType(); d {
	case torch.Float32:
		return safetensors.FromFloat32s(t.Float32s(), t.Shape()...), nil
	case torch.Float64:
		return safetensors.FromFloat64s(t.Float64s(), t.Shape()...), nil
	default:
		return safetensors.Tensor{}, fmt.Errorf("type %s has no place in a weights file", d)
	}
}
