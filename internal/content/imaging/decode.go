package imaging

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"

	"golang.org/x/image/webp"

	"github.com/pairstream/pairstream/internal/content/jpeg"
)

// Decode returns the upright RGB pixels of an encoded image. Its errors wrap [ErrTooLarge] or [ErrNotImage].
func Decode(encoded []byte) (*Image, error) { return DecodeShrunk(encoded, 0) }

// DecodeShrunk returns [Decode] of a picture whose shorter side is reduced, by a whole factor, to no less than minSide
// pixels, and to less than twice that; minSide 0 leaves the picture as it is. A JPEG is decoded at a half, a quarter or
// an eighth if that is enough; what remains, and other formats, are averaged over squares of pixels. It never holds the
// RGB pixels of the full size of a picture that it reduces, so a photograph of many megapixels costs little more than
// its decoder.
func DecodeShrunk(encoded []byte, minSide int) (*Image, error) {
	im, _, err := DecodeReduced(encoded, Want{MinSide: minSide})
	return im, err
}

// Want is how small a picture may become while it is decoded.
type Want struct {
	// MinSide is the bound of [DecodeShrunk] for the shorter side.
	MinSide int
	// Scaled lets the decoder of a JPEG go on to half of MinSide. Its transforms then leave out detail that a model with an
	// input of half of MinSide does not see, in the half of the time.
	Scaled bool
}

// ForModel returns the needs of a model that looks at whole pictures, scaled to side pixels.
func ForModel(side int) Want { return Want{MinSide: 2 * side, Scaled: true} }

// factors returns the total reduction of the picture, and the part that the decoder performs.
func (w Want) factors(isJPEG bool, side int) (factor, shrink int) {
	factor = factorFor(side, w.MinSide)
	if w.Scaled {
		return factor, shrinkFor(isJPEG, factorFor(side, max(1, w.MinSide/2)))
	}
	return factor, shrinkFor(isJPEG, factor)
}

// Check returns the error of decoding the image. It reduces the image as far as possible, and drops it.
func Check(encoded []byte) error {
	_, err := DecodeShrunk(encoded, 1)
	return err
}

// DecodeReduced decodes as [DecodeShrunk] does, and also returns how the picture was reduced.
func DecodeReduced(encoded []byte, want Want) (*Image, Reduction, error) {
	h, err := ReadHeader(encoded)
	if err != nil {
		return nil, Reduction{}, err
	}
	r := Reduction{Width: h.Width, Height: h.Height, jpeg: h.Format == "jpeg", stored: min(h.Width, h.Height)}
	if h.orientation >= 5 { // a side up
		r.Width, r.Height = h.Height, h.Width
	}
	factor, shrink := want.factors(r.jpeg, r.stored)
	r.shrink = shrink
	c := h.costs(shrink, factor)
	if want.MinSide > 0 && c.result > maxReducedBytes {
		return nil, r, h.tooLarge("%d x %d pixels, which are %d bytes when reduced, want at most %d", h.Width, h.Height, c.result, maxReducedBytes)
	}
	if c.first > MaxWorkBytes {
		return nil, r, h.tooLarge("%d x %d pixels, which take %d bytes, want at most %d", h.Width, h.Height, c.first, MaxWorkBytes)
	}
	out, err := h.decode(c.first, want.MinSide, &r, func() (image.Image, error) { return h.firstDecoder(encoded, r.shrink) })
	if errors.Is(err, jpeg.ErrRefused) {
		refusal := err
		if c.judge > MaxWorkBytes {
			return nil, r, fmt.Errorf("%w (image/jpeg might decode it, but takes %d bytes, want at most %d)", refusal, c.judge, MaxWorkBytes)
		}
		out, err = h.decode(c.judge, want.MinSide, &r, func() (image.Image, error) { return jpeg.Judge(encoded) })
		if err != nil {
			err = fmt.Errorf("%w; %w", err, refusal)
		}
	}
	return out, r, err
}

// decode runs a decoder when the process has room for its bytes.
func (h Header) decode(bytes int64, minSide int, r *Reduction, decoder func() (image.Image, error)) (*Image, error) {
	if err := working.Acquire(context.Background(), bytes); err != nil {
		return nil, err // cannot happen: the bound admits every file
	}
	defer leave(bytes)
	m, err := safely(decoder)
	if errors.Is(err, ErrTooLarge) {
		return nil, fmt.Errorf("decoding %s of %d x %d pixels: %w", h.Format, h.Width, h.Height, err)
	}
	if err != nil {
		return nil, fmt.Errorf("decoding %s of %d x %d pixels: %w: %w", h.Format, h.Width, h.Height, ErrNotImage, err)
	}
	b := m.Bounds()
	if _, isShrunk := m.(*jpeg.RGB); !isShrunk && (b.Dx() != h.Width || b.Dy() != h.Height) {
		return nil, fmt.Errorf("decoding %s: %w: %v pixels, the header says %d x %d", h.Format, ErrNotImage, b.Size(), h.Width, h.Height)
	}
	r.decoded = min(b.Dx(), b.Dy())
	r.factor = factorFor(r.decoded, minSide)
	matrix := &jpegMatrix
	if h.Format == "webp" {
		matrix = &webpMatrix
	}
	return toRGB(m, matrix, r.factor).orient(h.orientation), nil
}

// Reduction describes how a picture was made smaller.
type Reduction struct {
	Width, Height int // of the upright picture, before

	jpeg            bool
	stored, decoded int // shorter side in the file, and as the decoder gave it
	shrink, factor  int // of the decoder, and of the averaging after it
}

// Serves reports whether the picture would have the same pixels for another Want.
func (r Reduction) Serves(want Want) bool {
	_, shrink := want.factors(r.jpeg, r.stored)
	return r.shrink == shrink && r.factor == factorFor(r.decoded, want.MinSide)
}

// factorFor returns the reduction of a picture of the given shorter side.
func factorFor(side, minSide int) int {
	if minSide == 0 {
		return 1
	}
	return max(1, side/minSide)
}

// shrinkFor returns the decoder's part of the factor.
func shrinkFor(isJPEG bool, factor int) int {
	shrink := 1
	for isJPEG && shrink < jpeg.MaxShrink && 2*shrink <= factor {
		shrink *= 2
	}
	return shrink
}

// firstDecoder runs the decoder of the format; for a JPEG, the one that needs little memory.
func (h Header) firstDecoder(encoded []byte, shrink int) (image.Image, error) {
	switch h.Format {
	case "png":
		return decodeWithin(encoded, png.Decode)
	case "webp":
		return decodeWithin(withAlphaFlag(encoded), webp.Decode)
	default:
		return jpeg.Decode(encoded, image.Pt(h.Width, h.Height), shrink)
	}
}

// safely runs a decoder and turns its panic into an error of the image, because the bytes may be hostile.
func safely(decoder func() (image.Image, error)) (m image.Image, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, fmt.Errorf("decoder panicked: %v", p)
		}
	}()
	return decoder()
}
