package jpeg

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
)

// MaxShrink is the largest divisor of [Decode].
const MaxShrink = 8

// ErrRefused means that libjpeg-turbo does not decode a file. [Judge] may.
var ErrRefused = errors.New("libjpeg-turbo")

// Decode returns the image of a file whose header says size. Sides are divided by shrink (1, 2, 4 or [MaxShrink]),
// rounded up, which takes a part of the time of decoding everything: the finest detail is left out of the transforms.
// Its errors wrap [ErrRefused].
func Decode(encoded []byte, size image.Point, shrink int) (*RGB, error) {
	m, err := decodeTurbo(encoded, size, shrink)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return m, nil
}

// Judge decides with image/jpeg what a file is that [Decode] refuses. It takes more time and much more memory.
func Judge(encoded []byte) (image.Image, error) { return jpeg.Decode(bytes.NewReader(encoded)) }
