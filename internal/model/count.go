package model

// The methods below count the operations of a forward pass over one image, text or pair. Every product of a number and its
// weight counts two, and so does every product of two numbers in attention. Norms, activations and softmax are left out,
// as in the papers' figures.

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

// matchOperations counts those of fusionOperations that matching wants: the last layer computes the first token alone, and
// the first layer's self-attention belongs to the text.
func (c Config) matchOperations(n float64) float64 {
	side := float64(c.ImageSize / c.PatchSize)
	m, d, h := side*side+1, float64(c.TextHidden), float64(c.TextIntermediate)
	rest := n - 1 // tokens that the last layer leaves out
	last := 2*(2*rest*d*d+2*rest*d*h+2*rest*n*d) + 2*(2*rest*d*d+2*rest*m*d)
	return c.fusionOperations(n) - last - c.attendOperations(n)
}

// attendOperations counts the operations of the fusion encoder's first self-attention, which it computes once for a text.
func (c Config) attendOperations(n float64) float64 {
	d := float64(c.TextHidden)
	return 2 * (4*n*d*d + 2*n*n*d)
}

func (c Config) fusionLayers() float64 { return float64(c.TextLayers - c.FusionLayer) }

// ScoreOperations counts the operations of scoring a pair's candidates, m in each direction.
func (c Config) ScoreOperations(n, m float64) float64 {
	return c.ImageOperations() + c.viewOperations() + c.TextOperations(n) + c.attendOperations(n) + 2*m*c.matchOperations(n)
}

// StepOperations counts the operations of training on a pair with GRIT-VLP's losses, without a momentum encoder. ITM sees the
// pair matching, with a wrong text and with a wrong image. MLM encodes the text again, with half of its tokens hidden but for
// [CLS], and looks for those in the vocabulary. The way back costs twice the way forward.
func (c Config) StepOperations(n float64) float64 {
	matching := c.attendOperations(n) + 3*c.matchOperations(n)
	d := float64(c.TextHidden)
	words := (n - 1) / 2 * 2 * d * (d + float64(c.VocabSize))
	masked := c.TextOperations(n) + c.fusionOperations(n) + words
	return 3 * (c.ImageOperations() + c.TextOperations(n) + c.viewOperations() + matching + masked)
}

// Parameters counts the weights of a model, those of its MLM head included, whose words are the text encoder's.
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
