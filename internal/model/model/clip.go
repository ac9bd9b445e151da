package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// CLIP is OpenAI's dual encoder, under Hugging Face's names. Its owner calls Free.
type CLIP struct {
	Config CLIPConfig

	worker *torch.Worker
	params []Param
	vision clipVision
	text   clipText

	pictures imaging.Preprocess // their preparation; the zero value: OpenAI's
}

type clipVision struct {
	class, patch, positions *torch.Tensor
	before, after           norm
	layers                  []clipLayer
	projection              *torch.Tensor
}

type clipText struct {
	words, positions *torch.Tensor
	layers           []clipLayer
	last             norm
	projection       *torch.Tensor
}

// clipLayer is pre-normalised.
type clipLayer struct {
	norm1, norm2      norm
	query, key, value linear
	mixed             linear
	hidden, output    linear
	heads             int
	exact             bool // GELU by the error function; otherwise the quick form
}

func buildCLIP(ctx context.Context, w *torch.Worker, c CLIPConfig, src *source) (*CLIP, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &CLIP{Config: c, worker: w}
	err := w.Do(ctx, func(s *torch.Scope) error {
		src.scope = s
		m.vision = newCLIPVision(src, c)
		m.text = newCLIPText(src, c)
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

func newCLIPVision(src *source, c CLIPConfig) clipVision {
	const name = "vision_model."
	d := c.VisionDim
	side := c.ImageSize / c.PatchSize
	v := clipVision{
		class:      src.tensor(name+"embeddings.class_embedding", normal, d),
		patch:      src.tensor(name+"embeddings.patch_embedding.weight", fanIn, d, 3, c.PatchSize, c.PatchSize),
		positions:  src.tensor(name+"embeddings.position_embedding.weight", normal, side*side+1, d),
		before:     newNorm(src, name+"pre_layrnorm", d, clipEps), // spelled so in the files
		after:      newNorm(src, name+"post_layernorm", d, clipEps),
		projection: src.tensor("visual_projection.weight", fanIn, c.EmbedDim, d),
	}
	for i := range c.VisionDepth {
		layer := fmt.Sprintf("%sencoder.layers.%d.", name, i)
		v.layers = append(v.layers, newCLIPLayer(src, layer, d, c.VisionMLP, c.VisionHeads, c.ExactGELU))
	}
	return v
}

func newCLIPText(src *source, c CLIPConfig) clipText {
	const name = "text_model."
	h := c.TextHidden
	t := clipText{
		words:      src.tensor(name+"embeddings.token_embedding.weight", normal, c.VocabSize, h),
		positions:  src.tensor(name+"embeddings.position_embedding.weight", normal, c.Positions, h),
		last:       newNorm(src, name+"final_layer_norm", h, clipEps),
		projection: src.tensor("text_projection.weight", fanIn, c.EmbedDim, h),
	}
	for i := range c.TextLayers {
		layer := fmt.Sprintf("%sencoder.layers.%d.", name, i)
		t.layers = append(t.layers, newCLIPLayer(src, layer, h, c.TextMLP, c.TextHeads, c.ExactGELU))
	}
	return t
}

func newCLIPLayer(src *source, name string, width, hidden, heads int, exact bool) clipLayer {
	return clipLayer{
		norm1:  newNorm(src, name+"layer_norm1", width, clipEps),
		query:  newLinear(src, name+"self_attn.q_proj", width, width, normal),
		key:    newLinear(src, name+"self_attn.k_proj", width, width, normal),
		value:  newLinear(src, name+"self_attn.v_proj", width, width, normal),
		mixed:  newLinear(src, name+"self_attn.out_proj", width, width, normal),
		norm2:  newNorm(src, name+"layer_norm2", width, clipEps),
		hidden: newLinear(src, name+"mlp.fc1", width, hidden, normal),
		output: newLinear(src, name+"mlp.fc2", hidden, width, normal),
		heads:  heads,
		exact:  exact,
	}
}

// Free frees the weights.
func (m *CLIP) Free() { free(m.params) }

// Image projects normalised images [n, 3, size, size] to [n, embed], not of unit length.
func (m *CLIP) Image(s *torch.Scope, images *torch.Tensor) *torch.Tensor {
	v := m.vision
	x := embedPatches(s, images, v.patch, nil)
	shape := x.Shape()
	class := s.Expand(s.Reshape(v.class, 1, 1, shape[2]), shape[0], 1, shape[2])
	x = v.before.apply(s, s.Add(s.Cat(1, class, x), v.positions))
	x = through(s, x, len(v.layers), func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor {
		return v.layers[i].forward(s, x, nil)
	})
	return linear{w: v.projection}.exact(s, v.after.apply(s, s.Select(x, 1, 0)))
}

// Text projects ids [n, length] to [n, embed], not of unit length. The state at the end token represents the text. That
// token has the highest id, and later tokens have no influence.
func (m *CLIP) Text(s *torch.Scope, ids *torch.Tensor) *torch.Tensor {
	t := m.text
	n, length := ids.Size(0), ids.Size(1)
	x := s.Add(s.Embedding(t.words, ids, -1), s.Narrow(t.positions, 0, 0, length))
	mask := causalMask(s, length, t.words.DType())
	x = through(s, x, len(t.layers), func(s *torch.Scope, i int, x *torch.Tensor) *torch.Tensor {
		return t.layers[i].forward(s, x, mask)
	})
	width := x.Size(2)
	end := s.Expand(s.Reshape(s.ArgMax(ids, 1), n, 1, 1), n, 1, width)
	pooled := s.Squeeze(s.Gather(x, 1, end), 1)
	return linear{w: t.projection}.exact(s, t.last.apply(s, pooled))
}

// causalMask keeps a token from seeing the later ones: [1, length, length].
func causalMask(s *torch.Scope, length int64, dtype torch.DType) *torch.Tensor {
	seen := s.Tril(s.Full(1, dtype, length, length), 0)
	return s.Unsqueeze(s.MaskedFill(s.Zeros(dtype, length, length), s.EqScalar(seen, 0), minusInfinity), 0)
}

func (l clipLayer) forward(s *torch.Scope, x, mask *torch.Tensor) *torch.Tensor {
	qkv := linears(s, l.norm1.apply(s, x), l.query, l.key, l.value)
	x = s.Add(x, l.mixed.apply(s, s.SelfAttention(qkv, mask, l.heads, scaleOf(x.Size(-1), l.heads), 0)))
	hidden := l.hidden.apply(s, l.norm2.apply(s, x))
	if l.exact {
		hidden = s.GELU(hidden)
	} else {
		hidden = s.QuickGELU(hidden)
	}
	return s.Add(x, l.output.apply(s, hidden))
}

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

// CLIPOptions supply facts that the file and a config.json beside it lack.
type CLIPOptions struct {
	Prefix string      // prefix of the tensors' names
	Config *CLIPConfig // nil: from the shapes, and from config.json in the file's folder if there is one
	DType  torch.DType // zero: Float32; or Float64
}

// LoadCLIP reads a weights file with the names of Hugging Face's CLIPModel.
func LoadCLIP(ctx context.Context, w *torch.Worker, path string, o CLIPOptions) (*CLIP, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	m, err := loadCLIP(ctx, w, f, path, o)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	return m, nil
}

func loadCLIP(ctx context.Context, w *torch.Worker, f *safetensors.File, path string, o CLIPOptions) (*CLIP, error) {
	c := o.Config
	if c == nil {
		found, err := clipConfigOf(f, o.Prefix, filepath.Join(filepath.Dir(path), "config.json"))
		if err != nil {
			return nil, fmt.Errorf("%w; if this is no CLIP, %s", err, anEncoder)
		}
		c = &found
	}
	src := &source{
		values: fromFile(f, func(name string) []string { return []string{o.Prefix + name} }, 0),
		dtype:  o.DType,
		frozen: true,
	}
	return buildCLIP(ctx, w, *c, src)
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

// clipConfigOf derives the configuration from the shapes. Heads and activation do not show in shapes. They are read
// from config.json; without it they are OpenAI's.
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
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &hf); err != nil {
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
