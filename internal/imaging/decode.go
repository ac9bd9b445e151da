package imaging

import (
	"bytes"
	"fmt"
	"image"
	"image/png"

	"golang.org/x/image/webp"

	"github.com/pairstream/pairstream/internal/jpeg"
)

// Decode returns the upright RGB pixels of an encoded image. Its errors wrap [ErrTooLarge] or [ErrNotImage].
func Decode(encoded []byte) (*Image, error) { return DecodeShrunk(encoded, 0) }

// DecodeShrunk is [Decode] followed by a box average over squares of f x f pixels, where f is the largest factor that
// leaves the shorter side at minSide pixels or more; minSide 0 leaves the image as it is. It never holds the RGB pixels
// of the full size, so a photograph of many megapixels costs little more than its decoder.
func DecodeShrunk(encoded []byte, minSide int) (*Image, error) {
	h, err := ReadHeader(encoded)
	if err != nil {
		return nil, err
	}
	m, err := decodePixels(h.Format, encoded)
	if err != nil {
		return nil, fmt.Errorf("decoding %s of %d x %d pixels: %w: %w", h.Format, h.Width, h.Height, ErrNotImage, err)
	}
	b := m.Bounds()
	if b.Dx() != h.Width || b.Dy() != h.Height {
		return nil, fmt.Errorf("decoding %s: %w: %v pixels, the header says %d x %d", h.Format, ErrNotImage, b.Size(), h.Width, h.Height)
	}
	factor := 1
	if minSide > 0 {
		factor = max(1, min(h.Width, h.Height)/minSide)
	}
	matrix := &jpegMatrix
	if h.Format == "webp" {
		matrix = &webpMatrix
	}
	rgb := toRGB(m, matrix, factor)
	if h.Format == "jpeg" {
		jpeg.Recycle(m)
	}
	return rgb.orient(h.orientation), nil
}

// decodePixels runs the decoder of the format. The decoders read hostile bytes, so a panic of theirs is an error of the
// image and does not take the process down.
func decodePixels(format string, encoded []byte) (m image.Image, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, fmt.Errorf("decoder panicked: %v", p)
		}
	}()
	r := bytes.NewReader(encoded)
	switch format {
	case "jpeg":
		return jpeg.Decode(encoded)
	case "png":
		return png.Decode(r)
	default:
		return webp.Decode(r)
	}
}
