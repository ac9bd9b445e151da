package model

import (
	"math"
	"testing"
)

// The papers of ViT and CLIP, and those who count after them, give 17.6 and 4.4 billion products for an image of 224
// pixels.
func TestImageOperationsAreThoseOfThePapers(t *testing.T) {
	for patch, products := range map[int]float64{16: 17.6e9, 32: 4.4e9} {
		c := Config{ImageSize: 224, PatchSize: patch, VisionDim: 768, VisionDepth: 12}
		if got := c.ImageOperations() / 2; math.Abs(got/products-1) > 0.02 {
			t.Errorf("ViT-B/%d: %.3g products an image, want about %.3g", patch, got, products)
		}
	}
}

// The counts of a model whose widths are all 1, by hand. The image has one patch and the class token, the text three
// tokens. A product of a vector and a matrix costs 2 a token, and attention 4 for each query and key.
func TestOperationsOfAModelByHand(t *testing.T) {
	c := Config{
		ImageSize: 1, PatchSize: 1, VisionDim: 1, VisionDepth: 1, TextHidden: 1, TextLayers: 3, FusionLayer: 1, TextIntermediate: 4,
		VocabSize: 10,
	}
	const (
		ffn    = 2 * 2 * 4                                 // up and down, for a token
		block  = 3*(4*2+ffn) + 4*3*3                       // four projections and ffn for 3 tokens; 3 queries, 3 keys
		cross  = 3*(2*2) + 4*3*2                           // query and output for 3 tokens; 3 queries, 2 keys
		image  = 2*3 + 2*(4*2+ffn) + 4*2*2                 // one patch of 3 values; a block of 2 tokens
		text   = block                                     // one layer
		view   = 2 * (2 * 2 * 2)                           // two layers: key and value of 2 tokens
		fusion = 2 * (block + cross)                       // two layers
		attend = 3*4*2 + 4*3*3                             // the first layer's self-attention
		first  = block - attend + cross                    // what is left of the first layer
		last   = 3*2*2 + 1*2*2 + 4*3 + 1*ffn + 1*2*2 + 4*2 // keys and values of 3 tokens, all else of one
		words  = 1 * 2 * (1 + 10)                          // one hidden token: a layer, and the vocabulary
	)
	for name, tt := range map[string]struct{ got, want float64 }{
		"image":  {c.ImageOperations(), image},
		"text":   {c.TextOperations(3), text},
		"view":   {c.viewOperations(), view},
		"fusion": {c.fusionOperations(3), fusion},
		"match":  {c.matchOperations(3), first + last},
		"Con-D":  {c.ScoreOperations(3, 2), image + view + text + attend + 4*(first+last)},
		"step":   {c.StepOperations(3), 3 * (image + text + view + attend + 3*(first+last) + text + fusion + words)},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %g operations, want %g", name, tt.got, tt.want)
		}
	}
}
