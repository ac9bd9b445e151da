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

// DecodeShrunk is [Decode] of a picture whose shorter side is reduced, by a whole factor, to no less than minSide pixels,
// and to less than twice that; minSide 0 leaves the picture as it is. A JPEG is decoded at a half, a quarter or an eighth
// if that is enough; what remains, and other formats, are averaged over squares of pixels. It never holds the RGB pixels
// of the full size of a picture that it reduces, so a photograph of many megapixels costs little more than its decoder.
func DecodeShrunk(encoded []byte, minSide int) (*Image, error) {
	h, err := ReadHeader(encoded)
	if err != nil {
		return nil, err
	}
	shrink := 1
	for minSide > 0 && h.Format == "jpeg" && shrink < jpeg.MaxShrink && min(h.Width, h.Height)/(2*shrink) >= minSide {
		shrink *= 2
	}
	m, err := decodePixels(h, encoded, shrink)
	if err != nil {
		return nil, fmt.Errorf("decoding %s of %d x %d pixels: %w: %w", h.Format, h.Width, h.Height, ErrNotImage, err)
	}
	b := m.Bounds()
	if _, isShrunk := m.(*jpeg.RGB); !isShrunk && (b.Dx() != h.Width || b.Dy() != h.Height) {
		return nil, fmt.Errorf("decoding %s: %w: %v pixels, the header says %d x %d", h.Format, ErrNotImage, b.Size(), h.Width, h.Height)
	}
	factor := 1
	if minSide > 0 {
		factor = max(1, min(b.Dx(), b.Dy())/minSide)
	}
	matrix := &jpegMatrix
	if h.Format == "webp" {
		matrix = &webpMatrix
	}
	return toRGB(m, matrix, factor).orient(h.orientation), nil
}

// decodePixels runs the decoder of the format. The decoders read hostile bytes, so a panic of theirs is an error of the
// image and does not take the process down.
func decodePixels(h Header, encoded []byte, shrink int) (m image.Image, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, fmt.Errorf("decoder panicked: %v", p)
		}
	}()
	r := bytes.NewReader(encoded)
	switch h.Format {
	case "jpeg":
		return jpeg.Decode(encoded, image.Pt(h.Width, h.Height), shrink)
	case "png":
		return png.Decode(r)
	default:
		return webp.Decode(r)
	}
}
