package model

import (
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/safetensors"
)

const (
	headWidth    = 64 // of BERT, of CLIP and of the vision transformers, in all published sizes
	captionWords = 30 // of the authors' pre_caption, in pre-training and in evaluation
)

// shapeReader reads sizes off a file's tensors, and keeps the first problem.
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

// sideOf returns the side of a square of so many patches.
func sideOf(patches int) int { return int(math.Sqrt(float64(max(patches, 0))) + 0.5) }

// configFromShapes reads a configuration off the tensors of a converted checkpoint. The shapes do not show the number of
// heads.
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
	layers := r.count("text_encoder.bert.encoder.layer.%d.output.dense.weight", true)
	alone := r.count("text_encoder.bert.encoder.layer.%d.crossattention.output.dense.weight", false)
	return Config{
		ImageSize: sideOf(places[1]-1) * patch[3], PatchSize: patch[3],
		VisionDim: patch[0], VisionHeads: max(1, patch[0]/headWidth),
		VisionDepth: r.count("visual_encoder.blocks.%d.norm1.weight", true),
		TextHidden:  words[1], TextHeads: max(1, words[1]/headWidth), TextIntermediate: hidden[0],
		TextLayers: layers, FusionLayer: min(alone, layers),
		VocabSize: words[0], MaxPositions: positions[0], EmbedDim: embed[0],
		TextTokens: min(preTrainingTokens, positions[0]), CaptionWords: captionWords,
	}, nil
}
