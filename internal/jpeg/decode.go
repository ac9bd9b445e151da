package jpeg

import (
	"bytes"
	"fmt"
	"image"
	"image/jpeg"
)

// MaxShrink is the largest divisor of [Decode].
const MaxShrink = 8

// Decode returns the image of a file whose header says size. Sides are divided by shrink (1, 2, 4 or [MaxShrink]), rounded
// up, which takes a part of the time of decoding everything: the finest detail is left out of the transforms. What
// image/jpeg decodes keeps its size. Without judge a file is refused that libjpeg-turbo refuses: image/jpeg takes much
// more memory.
func Decode(encoded []byte, size image.Point, shrink int, judge bool) (image.Image, error) {
	m, refusal := decodeTurbo(encoded, size, shrink)
	if refusal == nil {
		return m, nil
	}
	if !judge {
		return nil, fmt.Errorf("too large for image/jpeg; %w", refusal)
	}
	whole, err := jpeg.Decode(bytes.NewReader(encoded))
	if err != nil {
		return nil, fmt.Errorf("%w; %w", err, refusal)
	}
	return whole, nil
}
