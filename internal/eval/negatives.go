package eval

// pairs lists every text with its image.
func (t Truth) pairs() []Pair {
	pairs := make([]Pair, len(t.imageOf))
	for text, image := range t.imageOf {
		pairs[text] = Pair{Image: image, Text: int32(text)}
	}
	return pairs
}

// hardestNegatives lists ITM's hard negatives over the whole set. They are, for every image, the most similar text that is
// not its own, and for every text the most similar such image. With a single image there are none. Pairs that match, if that
// is known, are no negatives.
func (t Truth) hardestNegatives(sim Matrix, matches func(image, text int) bool) []Pair {
	if matches == nil {
		matches = func(image, text int) bool { return false }
	}
	var pairs []Pair
	for image := range t.textsOf {
		row := sim.Row(image)
		best := int32(-1)
		for text := range row {
			if t.imageOf[text] != int32(image) && (best < 0 || row[text] > row[best]) && !matches(image, text) {
				best = int32(text)
			}
		}
		if best >= 0 {
			pairs = append(pairs, Pair{Image: int32(image), Text: best})
		}
	}
	for text, own := range t.imageOf {
		best := int32(-1)
		for image := range t.textsOf {
			if int32(image) != own && (best < 0 || sim.Row(image)[text] > sim.Row(int(best))[text]) && !matches(image, text) {
				best = int32(image)
			}
		}
		if best >= 0 {
			pairs = append(pairs, Pair{Image: best, Text: int32(text)})
		}
	}
	return pairs
}
