package imaging

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/webp"
)

// Limits on decoding. Together they keep every file below two seconds of one core and 256 MiB, whatever its bytes
// claim; internal/testing/torture has the measurements.
const (
	MaxEncodedBytes = 20 << 20
	MaxPixels       = 64_000_000
	MaxSide         = 1<<16 - 1
	MaxWorkBytes    = 128 << 20 // peak memory of decoding

	// maxScans bounds the passes over the pixels that a JPEG may ask for, and maxVisits the coefficients that they
	// touch in total. Encoders write about ten scans, which touch each coefficient two or three times.
	maxScans  = 100
	maxVisits = 600_000_000
	// maxPNGBytes bounds the samples of a PNG: 32 megapixels in colour. Wider samples are more work.
	maxPNGBytes = 128_000_000
	// maxPNGChunks bounds the chunks of a PNG. Readers take a microsecond for each, even if it is empty.
	maxPNGChunks = 100_000
	// maxWebPPixels is below MaxPixels because a lossless WebP of a few bytes may have any size.
	maxWebPPixels = 16_000_000
)

// Errors of bytes that are no usable image.
var (
	ErrTooLarge = errors.New("image too large")
	ErrNotImage = errors.New("not a readable image")
)

// Header holds the facts declared by the first bytes of an encoded image.
type Header struct {
	Format        string // "jpeg", "png" or "webp"
	Width, Height int    // as stored, before the EXIF orientation
	// WorkBytes bounds the peak memory of a decoder, without its result.
	WorkBytes int64

	orientation int   // EXIF, 1..8
	judgeBytes  int64 // memory of image/jpeg for a file that libjpeg-turbo refuses
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
		if n := pngChunks(encoded); n > maxPNGChunks {
			return Header{}, fmt.Errorf("reading png header: %w: %d chunks, want at most %d", ErrTooLarge, n, maxPNGChunks)
		}
		config = png.DecodeConfig
	case "webp":
		config = webp.DecodeConfig
	default:
		return Header{}, fmt.Errorf("reading image header: %w: neither JPEG, PNG nor WebP%s", ErrNotImage, foreign(encoded))
	}
	// The declared size comes from the same parser that decodes the pixels, so the two cannot disagree.
	c, err := config(bytes.NewReader(encoded))
	if err != nil {
		return Header{}, fmt.Errorf("reading %s header: %w: %w", h.Format, ErrNotImage, err)
	}
	h.Width, h.Height = c.Width, c.Height
	if h.Width <= 0 || h.Height <= 0 {
		return Header{}, fmt.Errorf("reading %s header: %w: %d x %d pixels", h.Format, ErrNotImage, h.Width, h.Height)
	}
	if max(h.Width, h.Height) > MaxSide || h.pixels() > MaxPixels {
		return Header{}, h.tooLarge("%d x %d pixels, want at most %d and %d on a side", h.Width, h.Height, MaxPixels, MaxSide)
	}
	return h, h.inspect(encoded)
}

func (h *Header) pixels() int64 { return int64(h.Width) * int64(h.Height) }

func (h *Header) tooLarge(format string, values ...any) error {
	return fmt.Errorf("reading %s header: %w: %s", h.Format, ErrTooLarge, fmt.Sprintf(format, values...))
}

// inspect adds the facts besides the size, and refuses files that ask for too much time or memory.
func (h *Header) inspect(encoded []byte) error {
	var err error
	switch h.Format {
	case "png":
		err = h.inspectPNG(encoded)
	case "jpeg":
		err = h.inspectJPEG(encoded)
	default:
		h.WorkBytes = 8 * h.pixels() // NRGBA, and a transformed copy
		if h.pixels() > maxWebPPixels {
			err = h.tooLarge("%d x %d pixels, want at most %d", h.Width, h.Height, maxWebPPixels)
		}
	}
	if err == nil && h.WorkBytes > MaxWorkBytes {
		err = h.tooLarge("%d x %d pixels, which take %d bytes, want at most %d", h.Width, h.Height, h.WorkBytes, MaxWorkBytes)
	}
	return err
}

// pngChunks counts the chunks of a PNG up to its end or to where it breaks off.
//
//	8 signature | length | name | length bytes | checksum | ...
func pngChunks(encoded []byte) (n int) {
	for at := int64(8); at+12 <= int64(len(encoded)); n++ {
		at += 12 + int64(binary.BigEndian.Uint32(encoded[at:]))
	}
	return n
}

// inspectPNG reads the header chunk, which image/png has checked.
//
//	8 signature | 4 length | "IHDR" | 4 width | 4 height | depth | colour type | compression | filter | interlacing
func (h *Header) inspectPNG(encoded []byte) error {
	depth, colour, interlaced := encoded[24], encoded[25], encoded[28] != 0
	const grey, palette = 0, 3
	perPixel := int64(4)
	switch single := colour == grey || colour == palette; {
	case single && depth == 16:
		perPixel = 2
	case single:
		perPixel = 1
	case depth == 16:
		perPixel = 8
	}
	h.WorkBytes = perPixel * h.pixels()
	if h.WorkBytes > maxPNGBytes {
		return h.tooLarge("%d x %d pixels of %d bytes, want at most %d bytes", h.Width, h.Height, perPixel, maxPNGBytes)
	}
	if interlaced { // its seven pictures, the last of which has half of the pixels
		h.WorkBytes *= 2
	}
	return nil
}

func (h *Header) inspectJPEG(encoded []byte) error {
	facts := inspectJPEG(encoded)
	switch {
	case facts.scans > maxScans:
		return h.tooLarge("%d scans, want at most %d", facts.scans, maxScans)
	case facts.scans > 1 && facts.visits > maxVisits:
		return h.tooLarge("%d scans touch %d coefficients, want at most %d", facts.scans, facts.visits, maxVisits)
	}
	h.orientation = facts.orientation
	h.judgeBytes = facts.coefficients // the planes
	if facts.progressive || facts.scans > 1 {
		h.WorkBytes = 2 * facts.coefficients
		h.judgeBytes += 4 * facts.coefficients
	}
	if facts.components == 4 { // libjpeg-turbo does not decode it
		h.WorkBytes = h.judgeBytes
	}
	return nil
}

// Sniff names the format that the first bytes claim: "jpeg", "png", "webp", or "" for any other.
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
