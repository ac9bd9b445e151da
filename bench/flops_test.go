package main

import (
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/model"
)

// The papers of ViT and CLIP, and those who count after them, give 17.6 and 4.4 billion products for an image of 224 pixels.
func TestImageOperationsAreThoseOfThePapers(t *testing.T) {
	for patch, products := range map[int]float64{16: 17.6e9, 32: 4.4e9} {
		c, err := vit(patch)
		if err != nil {
			t.Fatal(err)
		}
		if got := imageOperations(c) / 2; math.Abs(got/products-1) > 0.02 {
			t.Errorf("ViT-B/%d: %.3g products an image, want about %.3g", patch, got, products)
		}
	}
}

func TestOperationsOfAModelByHand(t *testing.T) {
	// There are one patch and the class token, and all widths are 1. A block costs 2(4+8)n + 4n^2 with n tokens.
	c := model.Config{
		ImageSize: 1, PatchSize: 1, VisionDim: 1, VisionDepth: 1, TextHidden: 1, TextLayers: 2, FusionLayer: 1, TextIntermediate: 4,
	}
	image, text, fusion := 2*3.0+24*2+4*4, 24*3+4*9.0, 24*3+4*9+2*(2*3+2*2+2*3*2.0)
	for name, tt := range map[string]struct{ got, want float64 }{
		"image":  {imageOperations(c), image},
		"text":   {textOperations(c, 3), text},
		"fusion": {fusionOperations(c, 3), fusion},
		"Con-D":  {conDOperations(c, 3, 2), image + text + 4*fusion},
		"step":   {stepOperations(c, 3), 3*(image+2*text+4*fusion) + image + text},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %g operations, want %g", name, tt.got, tt.want)
		}
	}
}
