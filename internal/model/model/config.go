package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pairstream/pairstream/internal/base/invalid"
	"github.com/pairstream/pairstream/internal/model/safetensors"
)

// Config is the shape of a model of the ALBEF architecture.
type Config struct {
	ImageSize        int `json:"image_size"` // pixels on a side
	PatchSize        int `json:"patch_size"`
	VisionDim        int `json:"vision_dim"`
	VisionDepth      int `json:"vision_depth"`
	VisionHeads      int `json:"vision_heads"`
	TextHidden       int `json:"text_hidden"`
	TextLayers       int `json:"text_layers"`  // text and fusion layers together
	FusionLayer      int `json:"fusion_layer"` // the first layer with cross-attention
	TextHeads        int `json:"text_heads"`
	TextIntermediate int `json:"text_intermediate"`
	VocabSize        int `json:"vocab_size"`
	MaxPositions     int `json:"max_positions"`
	EmbedDim         int `json:"embed_dim"`
	TextTokens       int `json:"text_tokens"` // length to which captions are cut, including [CLS] and [SEP]

	// CaptionWords is the number of words that the authors' pre_caption keeps of a caption before tokenization; 0:
	// captions stay unchanged. A model must be fed as in its training.
	CaptionWords int `json:"caption_words,omitempty"`
}

const (
	visionMLPRatio = 4 // width of a vision block's hidden layer over its own
	tokenTypes     = 2 // BERT's segments; captions use the first

	// maxSize bounds every number of a configuration, so that a file cannot ask for endless work.
	maxSize = 1 << 20
	// maxLayers bounds the depths for the same reason.
	maxLayers = 256
)

// Validate returns every invalid setting, joined.
func (c Config) Validate() error {
	fields := []field{
		{"image_size", c.ImageSize, 1, 1 << 13},
		{"patch_size", c.PatchSize, 1, 1 << 13},
		{"vision_dim", c.VisionDim, 1, maxSize},
		{"vision_depth", c.VisionDepth, 1, maxLayers},
		{"vision_heads", c.VisionHeads, 1, maxSize},
		{"text_hidden", c.TextHidden, 1, maxSize},
		{"text_layers", c.TextLayers, 2, maxLayers},
		{"fusion_layer", c.FusionLayer, 1, c.TextLayers - 1},
		{"text_heads", c.TextHeads, 1, maxSize},
		{"text_intermediate", c.TextIntermediate, 1, maxSize},
		{"vocab_size", c.VocabSize, 1, 1 << 24},
		{"max_positions", c.MaxPositions, 1, maxSize},
		{"embed_dim", c.EmbedDim, 1, maxSize},
		{"text_tokens", c.TextTokens, 2, c.MaxPositions},
		{"caption_words", c.CaptionWords, 0, maxSize},
	}
	return checkSizes(fields, []division{
		{"patch_size", "image_size", c.PatchSize, c.ImageSize},
		{"vision_heads", "vision_dim", c.VisionHeads, c.VisionDim},
		{"text_heads", "text_hidden", c.TextHeads, c.TextHidden},
	})
}

// field is a number and its bounds.
type field struct {
	name               string
	value, least, most int
}

// division is a number that must divide another.
type division struct {
	name, of          string
	divisor, dividend int
}

func checkSizes(fields []field, divisions []division) error {
	var l invalid.List
	for _, f := range fields {
		l.Refuse(f.value < f.least || f.value > f.most, "%s is %d, want %d to %d", f.name, f.value, f.least, f.most)
	}
	for _, d := range divisions {
		l.Refuse(d.divisor > 0 && d.dividend%d.divisor != 0, "%s is %d, want a divisor of %s, %d", d.name, d.divisor, d.of, d.dividend)
	}
	return l.Err()
}

// Lengths of texts in the authors' code, [CLS] and [SEP] included.
const (
	preTrainingTokens = 25
	retrievalTokens   = 30
)

// RetrievalTokens returns the length to which captions are cut in retrieval: 30 for a model pre-trained with 25, as in
// the papers, otherwise the model's own.
func (c Config) RetrievalTokens() int {
	if c.TextTokens == preTrainingTokens {
		return min(retrievalTokens, c.MaxPositions)
	}
	return c.TextTokens
}

// imageTokens returns the number of patches and the class token.
func (c Config) imageTokens() int {
	side := c.ImageSize / c.PatchSize
	return side*side + 1
}

// presets leave the vocabulary to the caller.
var presets = []struct {
	name string
	Config
}{
	// micro trains within a minute on one CPU core, on pictures of a few coloured shapes.
	{"micro", Config{
		ImageSize: 32, PatchSize: 8, VisionDim: 64, VisionDepth: 3, VisionHeads: 4,
		TextHidden: 64, TextLayers: 4, FusionLayer: 2, TextHeads: 4, TextIntermediate: 256,
		MaxPositions: 32, EmbedDim: 32, TextTokens: 20,
	}},
	// tiny trains within minutes on two CPU cores.
	{"tiny", Config{
		ImageSize: 64, PatchSize: 16, VisionDim: 128, VisionDepth: 4, VisionHeads: 4,
		TextHidden: 128, TextLayers: 4, FusionLayer: 2, TextHeads: 4, TextIntermediate: 512,
		MaxPositions: 64, EmbedDim: 64, TextTokens: 24,
	}},
	{"small", Config{
		ImageSize: 128, PatchSize: 16, VisionDim: 384, VisionDepth: 12, VisionHeads: 6,
		TextHidden: 384, TextLayers: 12, FusionLayer: 6, TextHeads: 6, TextIntermediate: 1536,
		MaxPositions: 128, EmbedDim: 256, TextTokens: 25,
	}},
	// base is the papers' model.
	{"base", Config{
		ImageSize: 256, PatchSize: 16, VisionDim: 768, VisionDepth: 12, VisionHeads: 12,
		TextHidden: 768, TextLayers: 12, FusionLayer: 6, TextHeads: 12, TextIntermediate: 3072,
		MaxPositions: 512, EmbedDim: 256, TextTokens: 25,
	}},
}

// PresetNames lists the presets, smallest first.
func PresetNames() []string {
	var names []string
	for _, p := range presets {
		names = append(names, p.name)
	}
	return names
}

// Preset returns a configuration by name, for a vocabulary of the given size.
func Preset(name string, vocabSize int) (Config, error) {
	for _, p := range presets {
		if p.name == name {
			p.VocabSize = vocabSize
			if err := p.Validate(); err != nil {
				return Config{}, fmt.Errorf("preparing model preset %s: %w", name, err)
			}
			return p.Config, nil
		}
	}
	return Config{}, fmt.Errorf("model preset %q is not known, want one of %s", name, strings.Join(PresetNames(), ", "))
}

const (
	headWidth    = 64 // of BERT, of CLIP and of the vision transformers, in all published sizes
	captionWords = 30 // of the authors' pre_caption, in pre-training and in evaluation
)

// shapeReader reads sizes from a file's tensors, and keeps the first problem.
type shapeReader struct {
	file  *safetensors.File
	names func(string) []string // under which a tensor is looked up
	err   error
}

func (r *shapeReader) find(name string) (safetensors.Tensor, bool) {
	for _, candidate := range r.names(name) {
		if t, ok := r.file.Tensor(candidate); ok {
			return t, true
		}
	}
	return safetensors.Tensor{}, false
}

// shape returns the shape of a tensor of the given rank, or zeros when there is a problem.
func (r *shapeReader) shape(name string, rank int) []int {
	sizes := make([]int, rank)
	t, ok := r.find(name)
	switch {
	case r.err != nil:
	case !ok:
		r.err = fmt.Errorf("tensor %s is missing", r.names(name)[0])
	case len(t.Shape) != rank:
		r.err = fmt.Errorf("tensor %s has shape %s, want %d dimensions", r.names(name)[0], shapeString(t.Shape), rank)
	default:
		for i, d := range t.Shape {
			sizes[i] = int(d)
		}
	}
	return sizes
}

// count returns the number of layers 0, 1, ... that have (or do not have) the tensor of the format.
func (r *shapeReader) count(format string, present bool) int {
	n := 0
	for ; n < maxLayers; n++ {
		if _, ok := r.find(fmt.Sprintf(format, n)); ok != present {
			break
		}
	}
	return n
}

// sideOf returns the side of a square of the given number of patches.
func sideOf(patches int) int { return int(math.Sqrt(float64(max(patches, 0))) + 0.5) }

// publishedWidths are the widths of ViTs and BERTs whose published sizes all have heads of headWidth.
var publishedWidths = []int{192, 384, 768, 1024}

// headsOf returns the number of attention heads of a published width. Shapes do not show it, and a wrong number ruins a
// model without an error.
func headsOf(width int, part string) (int, error) {
	if !slices.Contains(publishedWidths, width) {
		return 0, fmt.Errorf("the file does not say how many attention heads its %s encoder has (%s, as `python -m pairstream convert --heads` writes it), "+
			"and a width of %d is no published one", part, configKey, width)
	}
	return width / headWidth, nil
}

// configFromShapes derives a configuration from the tensors of a converted checkpoint of a published size.
func configFromShapes(f *safetensors.File, prefix string) (Config, error) {
	r := &shapeReader{file: f, names: func(name string) []string { return namesOf(prefix, name) }}
	patch := r.shape("visual_encoder.patch_embed.proj.weight", 4)
	places := r.shape("visual_encoder.pos_embed", 3)
	words := r.shape("text_encoder.bert.embeddings.word_embeddings.weight", 2)
	positions := r.shape("text_encoder.bert.embeddings.position_embeddings.weight", 2)
	hidden := r.shape("text_encoder.bert.encoder.layer.0.intermediate.dense.weight", 2)
	embed := r.shape("vision_proj.weight", 2)
	if r.err != nil {
		return Config{}, r.err
	}
	visionHeads, err := headsOf(patch[0], "image")
	if err != nil {
		return Config{}, err
	}
	textHeads, err := headsOf(words[1], "text")
	if err != nil {
		return Config{}, err
	}
	layers := r.count("text_encoder.bert.encoder.layer.%d.output.dense.weight", true)
	alone := r.count("text_encoder.bert.encoder.layer.%d.crossattention.output.dense.weight", false)
	return Config{
		ImageSize: sideOf(places[1]-1) * patch[3], PatchSize: patch[3],
		VisionDim: patch[0], VisionHeads: visionHeads,
		VisionDepth: r.count("visual_encoder.blocks.%d.norm1.weight", true),
		TextHidden:  words[1], TextHeads: textHeads, TextIntermediate: hidden[0],
		TextLayers: layers, FusionLayer: min(alone, layers),
		VocabSize: words[0], MaxPositions: positions[0], EmbedDim: embed[0],
		TextTokens: min(preTrainingTokens, positions[0]), CaptionWords: captionWords,
	}, nil
}

// The methods below count the operations of a forward pass over one image, text or pair. Every product of a number and
// its weight counts two, and so does every product of two numbers in attention. Norms, activations and softmax are left
// out, as in the papers' figures.

// blockOperations counts the operations of n tokens of width d in a transformer's block with a hidden layer of width h.
func blockOperations(n, d, h float64) float64 {
	return 2 * (4*n*d*d + 2*n*d*h + 2*n*n*d)
}

// ImageOperations counts the operations of the image encoder.
func (c Config) ImageOperations() float64 {
	side := float64(c.ImageSize / c.PatchSize)
	n, d, patch := side*side+1, float64(c.VisionDim), float64(3*c.PatchSize*c.PatchSize)
	return 2*(n-1)*patch*d + float64(c.VisionDepth)*blockOperations(n, d, 4*d)
}

// TextOperations counts the operations of the text encoder, for a text of n tokens.
func (c Config) TextOperations(n float64) float64 {
	return float64(c.FusionLayer) * blockOperations(n, float64(c.TextHidden), float64(c.TextIntermediate))
}

// viewOperations counts the operations of an image's keys and values in every layer of the fusion encoder. They are
// computed once for an image, however many texts it is paired with.
func (c Config) viewOperations() float64 {
	side := float64(c.ImageSize / c.PatchSize)
	return c.fusionLayers() * 2 * 2 * (side*side + 1) * float64(c.VisionDim) * float64(c.TextHidden)
}

// fusionOperations counts the operations of the fusion encoder for one pair, without those of [Config.viewOperations].
func (c Config) fusionOperations(n float64) float64 {
	side := float64(c.ImageSize / c.PatchSize)
	m, d := side*side+1, float64(c.TextHidden)
	cross := 2 * (2*n*d*d + 2*n*m*d)
	return c.fusionLayers() * (blockOperations(n, d, float64(c.TextIntermediate)) + cross)
}

// matchOperations counts the part of fusionOperations that matching needs: the last layer computes only the first
// token, and the first layer's self-attention belongs to the text.
func (c Config) matchOperations(n float64) float64 {
	side := float64(c.ImageSize / c.PatchSize)
	m, d, h := side*side+1, float64(c.TextHidden), float64(c.TextIntermediate)
	rest := n - 1 // tokens that the last layer leaves out
	last := 2*(2*rest*d*d+2*rest*d*h+2*rest*n*d) + 2*(2*rest*d*d+2*rest*m*d)
	return c.fusionOperations(n) - last - c.attendOperations(n)
}

// attendOperations counts the operations of the fusion encoder's first self-attention, computed once for a text.
func (c Config) attendOperations(n float64) float64 {
	d := float64(c.TextHidden)
	return 2 * (4*n*d*d + 2*n*n*d)
}

func (c Config) fusionLayers() float64 { return float64(c.TextLayers - c.FusionLayer) }

// ScoreOperations counts the operations of scoring a pair's candidates, m in each direction.
func (c Config) ScoreOperations(n, m float64) float64 {
	return c.ImageOperations() + c.viewOperations() + c.TextOperations(n) + c.attendOperations(n) + 2*m*c.matchOperations(n)
}

// StepOperations counts the operations of training on a pair with GRIT-VLP's losses, without a momentum encoder. ITM
// sees the matching pair, a wrong text and a wrong image. MLM encodes the text again, with half of its tokens except
// [CLS] hidden, and predicts those over the vocabulary. The backward pass costs twice the forward pass.
func (c Config) StepOperations(n float64) float64 {
	matching := c.attendOperations(n) + 3*c.matchOperations(n)
	d := float64(c.TextHidden)
	words := (n - 1) / 2 * 2 * d * (d + float64(c.VocabSize))
	masked := c.TextOperations(n) + c.fusionOperations(n) + words
	return 3 * (c.ImageOperations() + c.TextOperations(n) + c.viewOperations() + matching + masked)
}

// Parameters counts the weights of a model, including its MLM head, whose decoder is the text encoder's word
// embeddings.
func (c Config) Parameters() int64 {
	linear := func(in, out int) int64 { return int64(in)*int64(out) + int64(out) }
	norm := func(d int) int64 { return 2 * int64(d) }
	v, t, hidden := c.VisionDim, c.TextHidden, c.TextIntermediate

	block := 2*norm(v) + linear(v, 3*v) + linear(v, v) + linear(v, visionMLPRatio*v) + linear(visionMLPRatio*v, v)
	vision := linear(3*c.PatchSize*c.PatchSize, v) + int64(v) + int64(c.imageTokens()*v) + int64(c.VisionDepth)*block + norm(v)

	layer := 4*linear(t, t) + linear(t, hidden) + linear(hidden, t) + 2*norm(t)
	cross := 2*linear(t, t) + 2*linear(v, t) + norm(t)
	words := int64(c.VocabSize+c.MaxPositions+tokenTypes)*int64(t) + norm(t)
	text := words + int64(c.TextLayers)*layer + int64(c.TextLayers-c.FusionLayer)*cross

	const temperature = 1
	heads := linear(v, c.EmbedDim) + linear(t, c.EmbedDim) + linear(t, 2) + temperature
	masked := linear(t, t) + norm(t) + int64(c.VocabSize)
	return vision + text + heads + masked
}
