package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pairstream/pairstream/internal/safetensors"
	"github.com/pairstream/pairstream/internal/torch"
)

// CLIPConfig is the shape of a CLIP model.
type CLIPConfig struct {
	ImageSize   int  `json:"image_size"`
	PatchSize   int  `json:"patch_size"`
	VisionDim   int  `json:"vision_dim"`
	VisionDepth int  `json:"vision_depth"`
	VisionHeads int  `json:"vision_heads"`
	VisionMLP   int  `json:"vision_mlp"`
	TextHidden  int  `json:"text_hidden"`
	TextLayers  int  `json:"text_layers"`
	TextHeads   int  `json:"text_heads"`
	TextMLP     int  `json:"text_mlp"`
	VocabSize   int  `json:"vocab_size"`
	Positions   int  `json:"positions"` // length of every text
	EmbedDim    int  `json:"embed_dim"`
	ExactGELU   bool `json:"exact_gelu"` // as in some later CLIP models; OpenAI's have the quick form
}

// Validate returns every invalid setting, joined.
func (c CLIPConfig) Validate() error {
	fields := []field{
		{"image_size", c.ImageSize, 1, 1 << 13},
		{"patch_size", c.PatchSize, 1, 1 << 13},
		{"vision_dim", c.VisionDim, 1, maxSize},
		{"vision_depth", c.VisionDepth, 1, maxLayers},
		{"vision_heads", c.VisionHeads, 1, maxSize},
		{"vision_mlp", c.VisionMLP, 1, maxSize},
		{"text_hidden", c.TextHidden, 1, maxSize},
		{"text_layers", c.TextLayers, 1, maxLayers},
		{"text_heads", c.TextHeads, 1, maxSize},
		{"text_mlp", c.TextMLP, 1, maxSize},
		{"vocab_size", c.VocabSize, 1, 1 << 24},
		{"positions", c.Positions, 2, maxSize},
		{"embed_dim", c.EmbedDim, 1, maxSize},
	}
	return checkSizes(fields, []division{
		{"patch_size", "image_size", c.PatchSize, c.ImageSize},
		{"vision_heads", "vision_dim", c.VisionHeads, c.VisionDim},
		{"text_heads", "text_hidden", c.TextHeads, c.TextHidden},
	})
}

// CLIPOptions supply what the file and a config.json beside it do not say.
type CLIPOptions struct {
	Prefix string      // what the names of the tensors begin with
	Config *CLIPConfig // nil: from the shapes, and from config.json in the file's folder if there is one
	DType  torch.DType // zero: Float32; or Float64
}

// LoadCLIP reads a weights file with the names of Hugging Face's CLIPModel.
func LoadCLIP(ctx context.Context, w *torch.Worker, path string, o CLIPOptions) (*CLIP, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	c := o.Config
	if c == nil {
		found, err := clipConfigOf(f, o.Prefix, filepath.Join(filepath.Dir(path), "config.json"))
		if err != nil {
			return nil, fmt.Errorf("loading %s: %w", path, err)
		}
		c = &found
	}
	src := &source{
		values: fromFile(f, func(name string) []string { return []string{o.Prefix + name} }),
		dtype:  o.DType,
		frozen: true,
	}
	m, err := buildCLIP(ctx, w, *c, src)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return m, nil
}

// huggingFace has the fields of Hugging Face's config.json that matter here.
type huggingFace struct {
	Vision huggingFaceTower `json:"vision_config"`
	Text   huggingFaceTower `json:"text_config"`
}

type huggingFaceTower struct {
	Heads      int    `json:"num_attention_heads"`
	Activation string `json:"hidden_act"`
}

// clipConfigOf reads the configuration off the shapes. Heads and activation do not show in shapes. They are read from
// config.json; without it they are OpenAI's.
func clipConfigOf(f *safetensors.File, prefix, configPath string) (CLIPConfig, error) {
	c, err := clipConfigFromShapes(f, prefix)
	if err != nil {
		return CLIPConfig{}, err
	}
	text, err := os.ReadFile(configPath)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return CLIPConfig{}, fmt.Errorf("reading the configuration: %w", err)
	}
	var hf huggingFace
	if err := json.Unmarshal(text, &hf); err != nil {
		return CLIPConfig{}, fmt.Errorf("decoding %s: %w", configPath, err)
	}
	if hf.Vision.Heads > 0 {
		c.VisionHeads = hf.Vision.Heads
	}
	if hf.Text.Heads > 0 {
		c.TextHeads = hf.Text.Heads
	}
	switch hf.Text.Activation {
	case "", "quick_gelu":
	case "gelu":
		c.ExactGELU = true
	default:
		return CLIPConfig{}, fmt.Errorf("%s: hidden_act is %q, want quick_gelu or gelu", configPath, hf.Text.Activation)
	}
	return c, nil
}

func clipConfigFromShapes(f *safetensors.File, prefix string) (CLIPConfig, error) {
	r := &shapeReader{file: f, names: func(name string) []string { return []string{prefix + name} }}
	patch := r.shape("vision_model.embeddings.patch_embedding.weight", 4)
	places := r.shape("vision_model.embeddings.position_embedding.weight", 2)
	visionMLP := r.shape("vision_model.encoder.layers.0.mlp.fc1.weight", 2)
	words := r.shape("text_model.embeddings.token_embedding.weight", 2)
	positions := r.shape("text_model.embeddings.position_embedding.weight", 2)
	textMLP := r.shape("text_model.encoder.layers.0.mlp.fc1.weight", 2)
	embed := r.shape("text_projection.weight", 2)
	if r.err != nil {
		return CLIPConfig{}, r.err
	}
	return CLIPConfig{
		ImageSize: sideOf(places[0]-1) * patch[3], PatchSize: patch[3],
		VisionDim: patch[0], VisionHeads: max(1, patch[0]/headWidth), VisionMLP: visionMLP[0],
		VisionDepth: r.count("vision_model.encoder.layers.%d.layer_norm1.weight", true),
		TextHidden:  words[1], TextHeads: max(1, words[1]/headWidth), TextMLP: textMLP[0],
		TextLayers: r.count("text_model.encoder.layers.%d.layer_norm1.weight", true),
		VocabSize:  words[0], Positions: positions[0], EmbedDim: embed[0],
	}, nil
}
