package main

import "github.com/pairstream/pairstream/internal/model"

// These functions count the operations of a forward pass over one image, text or pair. Every product of a number and its
// weight counts two, and so does every product of two numbers in attention. Norms, activations and softmax are left out,
// as in the papers' figures.

// blockOperations counts the operations of n tokens of width d in a transformer's block with a hidden layer of width h.
func blockOperations(n, d, h float64) float64 {
	return 2 * (4*n*d*d + 2*n*d*h + 2*n*n*d)
}

// imageOperations counts the operations of the image encoder.
func imageOperations(c model.Config) float64 {
	side := float64(c.ImageSize / c.PatchSize)
	n, d, patch := side*side+1, float64(c.VisionDim), float64(3*c.PatchSize*c.PatchSize)
	return 2*(n-1)*patch*d + float64(c.VisionDepth)*blockOperations(n, d, 4*d)
}

// textOperations counts the operations of the text encoder, for a text of n tokens.
func textOperations(c model.Config, n float64) float64 {
	return float64(c.FusionLayer) * blockOperations(n, float64(c.TextHidden), float64(c.TextIntermediate))
}

// viewOperations counts the operations of an image's keys and values in every layer of the fusion encoder. They are
// computed once for an image, however many texts it is paired with.
func viewOperations(c model.Config) float64 {
	side := float64(c.ImageSize / c.PatchSize)
	return fusionLayers(c) * 2 * 2 * (side*side + 1) * float64(c.VisionDim) * float64(c.TextHidden)
}

// fusionOperations counts the operations of the fusion encoder for one pair, without those of [viewOperations].
func fusionOperations(c model.Config, n float64) float64 {
	side := float64(c.ImageSize / c.PatchSize)
	m, d := side*side+1, float64(c.TextHidden)
	cross := 2 * (2*n*d*d + 2*n*m*d)
	return fusionLayers(c) * (blockOperations(n, d, float64(c.TextIntermediate)) + cross)
}

// matchOperations counts those of fusionOperations that matching wants: the last layer computes the first token alone, and
// the first layer's self-attention belongs to the text.
func matchOperations(c model.Config, n float64) float64 {
	side := float64(c.ImageSize / c.PatchSize)
	m, d, h := side*side+1, float64(c.TextHidden), float64(c.TextIntermediate)
	rest := n - 1 // tokens that the last layer leaves out
	last := 2*(2*rest*d*d+2*rest*d*h+2*rest*n*d) + 2*(2*rest*d*d+2*rest*m*d)
	return fusionOperations(c, n) - last - attendOperations(c, n)
}

// attendOperations counts the operations of the fusion encoder's first self-attention, which it computes once for a text.
func attendOperations(c model.Config, n float64) float64 {
	d := float64(c.TextHidden)
	return 2 * (4*n*d*d + 2*n*n*d)
}

func fusionLayers(c model.Config) float64 { return float64(c.TextLayers - c.FusionLayer) }

// conDOperations counts the operations of scoring a pair's candidates, m in each direction.
func conDOperations(c model.Config, n, m float64) float64 {
	return imageOperations(c) + viewOperations(c) + textOperations(c, n) + attendOperations(c, n) + 2*m*matchOperations(c, n)
}

// stepOperations counts the operations of training on a pair with GRIT-VLP's losses, without a momentum encoder. ITM sees the
// pair matching, with a wrong text and with a wrong image. MLM encodes the text again, with half of its tokens hidden but for
// [CLS], and looks for those in the vocabulary. The way back costs twice the way forward.
func stepOperations(c model.Config, n float64) float64 {
	matching := attendOperations(c, n) + 3*matchOperations(c, n)
	d := float64(c.TextHidden)
	words := (n - 1) / 2 * 2 * d * (d + float64(c.VocabSize))
	masked := textOperations(c, n) + fusionOperations(c, n) + words
	return 3 * (imageOperations(c) + textOperations(c, n) + viewOperations(c) + matching + masked)
}
