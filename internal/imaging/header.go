package imaging

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"
)

// Limits on what is decoded.
const (
	MaxEncodedBytes = 20 << 20
	MaxPixels       = 64_000_000

	// maxScans bounds the passes over the pixels that a progressive JPEG may ask for; encoders write about ten.
	maxScans = 100
)

// The ways in which bytes fail to be a usable image.
var (
	ErrTooLarge = errors.New("image too large")
	ErrNotImage = errors.New("not a readable image")
)

// Header is what the first bytes of an encoded image declare.
type Header struct {
	Format        string // "jpeg", "png" or "webp"
	Width, Height int    // as stored, before the EXIF orientation
	// WorkBytes bounds, roughly, the memory that decoding takes at its peak.
	WorkBytes int64

	orientation int // EXIF, 1..8
}

// ReadHeader reads and checks the header; it allocates no pixels.
func ReadHeader(encoded []byte) (Header, error) {
	if len(encoded) > MaxEncodedBytes {
		return Header{}, fmt.Errorf("reading image header: %w: %d bytes, want at most %d", ErrTooLarge, len(encoded), MaxEncodedBytes)
	}
	h := Header{Format: Sniff(encoded), orientation: 1}
	var config func(io.Reader) (image.Config, error)
	switch h.Format {
	case "jpeg":
		config = jpeg.DecodeConfig
	case "png":
		config = png.DecodeConfig
	case "webp":
		config = webp.DecodeConfig
	default:
		return Header{}, fmt.Errorf("reading image header: %w: neither JPEG, PNG nor WebP", ErrNotImage)
	}
	// The declared size is taken from the very parser that decodes the pixels, so that the two cannot disagree.
	c, err := config(bytes.NewReader(encoded))
	if err != nil {
		return Header{}, fmt.Errorf("reading %s header: %w: %w", h.Format, ErrNotImage, err)
	}
	h.Width, h.Height = c.Width, c.Height
	if h.Width <= 0 || h.Height <= 0 {
		return Header{}, fmt.Errorf("reading %s header: %w: %d x %d pixels", h.Format, ErrNotImage, h.Width, h.Height)
	}
	if int64(h.Width)*int64(h.Height) > MaxPixels {
		return Header{}, fmt.Errorf("reading %s header: %w: %d x %d pixels, want at most %d", h.Format, ErrTooLarge, h.Width, h.Height, MaxPixels)
	}
	return h, h.inspect(encoded)
}

// inspect adds what the size does not tell: the memory that decoding takes and, for a JPEG, scans and orientation.
func (h *Header) inspect(encoded []byte) error {
	perPixel := int64(8) // WebP: NRGBA and a transformed copy
	switch h.Format {
	case "png":
		perPixel = 16 // 16-bit RGBA, twice when interlaced
	case "jpeg":
		facts := inspectJPEG(encoded)
		if facts.scans > maxScans {
			return fmt.Errorf("reading jpeg header: %w: %d scans, want at most %d", ErrTooLarge, facts.scans, maxScans)
		}
		h.orientation = facts.orientation
		perPixel = 6 // RGB and, where libjpeg-turbo gives up at the end, image/jpeg's planes
		if facts.progressive {
			perPixel = 20 // int32 coefficients of up to four components
		}
	}
	h.WorkBytes = (perPixel + 3) * int64(h.Width) * int64(h.Height)
	return nil
}

// Sniff names the format that the first bytes claim: "jpeg", "png", "webp", or "" for anything else.
func Sniff(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte("\xff\xd8")):
		return "jpeg"
	case bytes.HasPrefix(b, []byte("\x89PNG\r\n\x1a\n")):
		return "png"
	case len(b) >= 12 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP":
		return "webp"
	}
	return ""
}
