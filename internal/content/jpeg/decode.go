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

// ErrRefused means that libjpeg-turbo does not decode a file. [Judge] may decode it.
var ErrRefused = errors.New("libjpeg-turbo")

// Decode returns the image of a file whose header states size. Sides are divided by shrink (1, 2, 4 or [MaxShrink]),
// rounded up. This takes a fraction of the full time, because the transforms skip the finest detail. Its errors wrap
// [ErrRefused].
func Decode(encoded []byte, size image.Point, shrink int) (*RGB, error) {
	m, err := decodeTurbo(encoded, size, shrink)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return m, nil
}

// Judge decodes a file that [Decode] refuses with image/jpeg. It takes more time and much more memory.
func Judge(encoded []byte) (image.Image, error) { return jpeg.Decode(bytes.NewReader(encoded)) }
