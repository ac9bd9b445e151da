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

// fusionOperations counts the operations of the fusion encoder, for one pair. Its cross-attention reads every token of the
// image.
func fusionOperations(c model.Config, n float64) float64 {
	side := float64(c.ImageSize / c.PatchSize)
	m, d, v := side*side+1, float64(c.TextHidden), float64(c.VisionDim)
	cross := 2 * (2*n*d*d + 2*m*v*d + 2*n*m*d)
	return float64(c.TextLayers-c.FusionLayer) * (blockOperations(n, d, float64(c.TextIntermediate)) + cross)
}

// conDOperations counts the operations of scoring a pair's candidates, m in each direction.
func conDOperations(c model.Config, n, m float64) float64 {
	return imageOperations(c) + textOperations(c, n) + 2*m*fusionOperations(c, n)
}

// stepOperations counts the operations of training on a pair with GRIT-VLP's losses. The fusion encoder sees the pair
// matching, with a wrong text, with a wrong image and masked. The way back costs twice the way forward, and the momentum
// model goes forward only.
func stepOperations(c model.Config, n float64) float64 {
	momentum := imageOperations(c) + textOperations(c, n)
	return 3*(imageOperations(c)+2*textOperations(c, n)+4*fusionOperations(c, n)) + momentum
}
