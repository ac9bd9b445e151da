package model

import (
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/safetensors"
)

const (
	headWidth         = 64 // of BERT and of the vision transformers, in all published sizes
	defaultTextTokens = 25 // of GRIT-VLP and MAFA
)

// configFromShapes reads a configuration off the tensors of a converted checkpoint. The number of heads cannot be seen
// in the shapes.
func configFromShapes(f *safetensors.File, prefix string) (Config, error) {
	shape := func(name string, rank int) ([]int, error) {
		for _, candidate := range namesOf(prefix, name) {
			t, ok := f.Tensor(candidate)
			if !ok {
				continue
			}
			if len(t.Shape) != rank {
				return nil, fmt.Errorf("tensor %s has shape %s, want %d dimensions", candidate, shapeString(t.Shape), rank)
			}
			sizes := make([]int, rank)
			for i, d := range t.Shape {
				sizes[i] = int(d)
			}
			return sizes, nil
		}
		return nil, fmt.Errorf("tensor %s is missing, and so is metadata %s", prefix+name, configKey)
	}
	has := func(format string, i int) bool {
		for _, candidate := range namesOf(prefix, fmt.Sprintf(format, i)) {
			if _, ok := f.Tensor(candidate); ok {
				return true
			}
		}
		return false
	}
	var sizes [6][]int
	for i, want := range []struct {
		name string
		rank int
	}{
		{"visual_encoder.patch_embed.proj.weight", 4},
		{"visual_encoder.pos_embed", 3},
		{"text_encoder.bert.embeddings.word_embeddings.weight", 2},
		{"text_encoder.bert.embeddings.position_embeddings.weight", 2},
		{"text_encoder.bert.encoder.layer.0.intermediate.dense.weight", 2},
		{"vision_proj.weight", 2},
	} {
		var err error
		if sizes[i], err = shape(want.name, want.rank); err != nil {
			return Config{}, err
		}
	}
	patch, places, words, positions, hidden, embed := sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5]
	c := Config{
		PatchSize: patch[3], VisionDim: patch[0], VisionHeads: max(1, patch[0]/headWidth),
		ImageSize:  int(math.Sqrt(float64(places[1]-1))+0.5) * patch[3],
		TextHidden: words[1], TextHeads: max(1, words[1]/headWidth), TextIntermediate: hidden[0],
		VocabSize: words[0], MaxPositions: positions[0], EmbedDim: embed[0],
		TextTokens: min(defaultTextTokens, positions[0]),
	}
	for c.VisionDepth < maxLayers && has("visual_encoder.blocks.%d.norm1.weight", c.VisionDepth) {
		c.VisionDepth++
	}
	for c.TextLayers < maxLayers && has("text_encoder.bert.encoder.layer.%d.output.dense.weight", c.TextLayers) {
		c.TextLayers++
	}
	for c.FusionLayer < c.TextLayers && !has("text_encoder.bert.encoder.layer.%d.crossattention.output.dense.weight", c.FusionLayer) {
		c.FusionLayer++
	}
	return c, nil
}
