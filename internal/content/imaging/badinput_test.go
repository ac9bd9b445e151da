package imaging_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/jpeg"
	"runtime"
	"testing"

	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// pngHeader is a PNG that declares w x h pixels of RGB and ends there.
func pngHeader(w, h uint32) []byte { return pngOf(w, h, 8, 2, 0) }

func pngOf(w, h uint32, depth, colour, interlaced byte) []byte {
	ihdr := binary.BigEndian.AppendUint32([]byte("IHDR"), w)
	ihdr = binary.BigEndian.AppendUint32(ihdr, h)
	ihdr = append(ihdr, depth, colour, 0, 0, interlaced)
	out := append([]byte("\x89PNG\r\n\x1a\n"), 0, 0, 0, 13)
	out = append(out, ihdr...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(ihdr))
}

// jpegHeader is a real JPEG whose frame header declares w x h pixels.
func jpegHeader(t testing.TB, w, h uint16) []byte {
	t.Helper()
	var buf bytes.Buffer
	must.Do(t, jpeg.Encode(&buf, image.NewGray(image.Rect(0, 0, 8, 8)), nil))
	b := buf.Bytes()
	sof := bytes.Index(b, []byte{0xff, 0xc0})
	binary.BigEndian.PutUint16(b[sof+5:], h)
	binary.BigEndian.PutUint16(b[sof+7:], w)
	return b
}

// webpHeader is a WebP whose VP8X canvas is w x h and that holds a lossless frame of frameW x frameH.
func webpHeader(w, h, frameW, frameH uint32) []byte {
	le24 := func(v uint32) []byte { return []byte{byte(v), byte(v >> 8), byte(v >> 16)} }
	vp8x := append([]byte("VP8X\x0a\x00\x00\x00\x00\x00\x00\x00"), append(le24(w-1), le24(h-1)...)...)
	bits := (frameW - 1) | (frameH-1)<<14
	vp8l := append([]byte("VP8L\x06\x00\x00\x00\x2f"), binary.LittleEndian.AppendUint32(nil, bits)...)
	body := append(append([]byte("WEBP"), vp8x...), append(vp8l, 0)...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

// vp8lHeader is a plain lossless WebP of w x h pixels without data.
func vp8lHeader(w, h uint32) []byte {
	body := append([]byte("WEBPVP8L\x06\x00\x00\x00\x2f"), binary.LittleEndian.AppendUint32(nil, (w-1)|(h-1)<<14)...)
	body = append(body, 0)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
}

// manyScans is a progressive JPEG with n empty scans before its end, and before them what between says.
func manyScans(t testing.TB, n int, between ...byte) []byte {
	b := read(t, "blocks_progressive.jpg")
	sos := bytes.LastIndex(b, []byte{0xff, 0xda})
	scan := b[sos : sos+2+int(binary.BigEndian.Uint16(b[sos+2:]))]
	out := append(bytes.Clone(b[:len(b)-2]), between...)
	for range n {
		out = append(out, scan...)
	}
	return append(out, 0xff, 0xd9)
}

func TestRefusesBadInput(t *testing.T) {
	jpg, pic, webp := read(t, "blocks.jpg"), read(t, "picture.png"), read(t, "blocks.webp")
	for _, c := range []struct {
		name    string
		encoded []byte
		want    error
	}{
		{"nothing", nil, imaging.ErrNotImage},
		{"text", []byte("<html>404 not found</html>"), imaging.ErrNotImage},
		{"gif", []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"), imaging.ErrNotImage},
		{"jpeg cut in the pixels", jpg[:len(jpg)/2+200], imaging.ErrNotImage},
		{"jpeg cut in the header", jpg[:20], imaging.ErrNotImage},
		{"png cut in the pixels", pic[:len(pic)/2], imaging.ErrNotImage},
		{"png of a signature alone", pic[:8], imaging.ErrNotImage},
		{"webp cut", webp[:len(webp)/2], imaging.ErrNotImage},
		{"webp of a RIFF head alone", webp[:12], imaging.ErrNotImage},
		{"animated webp", read(t, "animated.webp"), imaging.ErrNotImage},
		{"png bit flip", flip(pic, len(pic)/2), imaging.ErrNotImage},
		{"png of 60,000 x 60,000", pngHeader(60_000, 60_000), imaging.ErrTooLarge},
		{"jpeg of 60,000 x 60,000", jpegHeader(t, 60_000, 60_000), imaging.ErrTooLarge},
		{"webp of 60,000 x 60,000", webpHeader(60_000, 60_000, 8, 8), imaging.ErrNotImage}, // its product overflows an int32
		{"webp of 40,000 x 40,000", webpHeader(40_000, 40_000, 8, 8), imaging.ErrTooLarge},
		{"lossless webp of 16,384 x 16,384", vp8lHeader(16_384, 16_384), imaging.ErrTooLarge},
		{"webp with a frame larger than its canvas", webpHeader(8, 8, 16_384, 16_384), imaging.ErrNotImage},
		{"png of 2^31-1 x 2^31-1", pngHeader(1<<31-1, 1<<31-1), imaging.ErrNotImage},
		{"jpeg without height", jpegHeader(t, 8, 0), imaging.ErrNotImage},
		{"png of no width", pngHeader(0, 8), imaging.ErrNotImage},
		{"one pixel too many", pngHeader(8_000, 8_001), imaging.ErrTooLarge},
		{"one byte too many", append(bytes.Clone(jpg), make([]byte, imaging.MaxEncodedBytes+1-len(jpg))...), imaging.ErrTooLarge},
		{"jpeg of 200 scans", manyScans(t, 200), imaging.ErrTooLarge},
		{"jpeg of 200 scans behind a marker without length", manyScans(t, 200, 0xff, 0x01), imaging.ErrTooLarge},
		{"jpeg of 200 scans behind fill bytes", manyScans(t, 200, 0xff, 0xff, 0xff), imaging.ErrTooLarge},
		{"jpeg of 50 scans of many pixels", largeFrame(t, manyScans(t, 50), 8000, 8000), imaging.ErrTooLarge},
		{"png of 64,000,000 x 1", pngHeader(64_000_000, 1), imaging.ErrTooLarge},
		{"png of 1 x 65,536", pngHeader(1, 65_536), imaging.ErrTooLarge},
		{"png of a row more than 40 megapixels", pngHeader(8000, 5001), imaging.ErrTooLarge},
		{"png of a row more than 20 megapixels, 16-bit RGBA", pngOf(8000, 2501, 16, 6, 0), imaging.ErrTooLarge},
		{"png of 64 megapixels, 16-bit grey and alpha", pngOf(8000, 8000, 16, 4, 1), imaging.ErrTooLarge},
		{"png of 100,001 chunks", append(bytes.Clone(pic[:33]), append(bytes.Repeat([]byte("\x00\x00\x00\x00teXt\x9b\xf8\x17\x6d"), 100_001), pic[33:]...)...), imaging.ErrTooLarge},
		{"lossless webp of 25 megapixels", vp8lHeader(5000, 5000), imaging.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			im, err := imaging.Decode(c.encoded)
			if im != nil || !errors.Is(err, c.want) {
				t.Fatalf("got %v and error %v, want no image and %v", im, err, c.want)
			}
			_, err = imaging.ReadHeader(c.encoded)
			if errors.Is(c.want, imaging.ErrTooLarge) && !errors.Is(err, imaging.ErrTooLarge) {
				t.Fatalf("reading only the header: %v, want %v", err, c.want)
			}
		})
	}
}

// largeFrame is a progressive JPEG whose frame header declares w x h pixels.
func largeFrame(t testing.TB, b []byte, w, h uint16) []byte {
	t.Helper()
	sof := bytes.Index(b, []byte{0xff, 0xc2})
	binary.BigEndian.PutUint16(b[sof+5:], h)
	binary.BigEndian.PutUint16(b[sof+7:], w)
	return b
}

func flip(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 0x10
	return b
}

func TestAcceptsTheLimits(t *testing.T) {
	for name, encoded := range map[string][]byte{
		"64 megapixels":                  pngOf(8_000, 8_000, 8, 0, 0),
		"32 megapixels":                  pngHeader(8_000, 4_000),
		"16 megapixels, 16-bit RGBA":     pngOf(8_000, 2_000, 16, 6, 0),
		"32 megapixels, 16-bit grey":     pngOf(8_000, 4_000, 16, 0, 1),
		"65,535 pixels on a side":        pngOf(65_535, 976, 8, 0, 0),
		"lossless WebP of 16 megapixels": vp8lHeader(6_250, 2_560),
		"progressive JPEG":               largeFrame(t, read(t, "blocks_progressive.jpg"), 6_500, 6_500),
	} {
		if h, err := imaging.ReadHeader(encoded); err != nil || h.Width < 6_000 || h.WorkBytes > imaging.MaxWorkBytes {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
	padded := append(bytes.Clone(read(t, "blocks.jpg")), make([]byte, imaging.MaxEncodedBytes-len(read(t, "blocks.jpg")))...)
	if _, err := imaging.Decode(padded); err != nil {
		t.Fatalf("an image of exactly %d bytes: %v", imaging.MaxEncodedBytes, err)
	}
}

// TestRefusingAllocatesLittle holds the promise that a declared size alone costs no memory.
func TestRefusingAllocatesLittle(t *testing.T) {
	for name, encoded := range map[string][]byte{
		"png": pngHeader(60_000, 60_000), "jpeg": jpegHeader(t, 60_000, 60_000), "webp": webpHeader(40_000, 40_000, 8, 8),
		"webp frame": webpHeader(8, 8, 16_384, 16_384), "vp8l": vp8lHeader(16_384, 16_384),
		"large file": make([]byte, imaging.MaxEncodedBytes+1),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := imaging.Decode(encoded)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: decoded", name)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
			t.Errorf("%s: refusing allocated %d bytes, want less than 1 MiB", name, grown)
		}
	}
}
