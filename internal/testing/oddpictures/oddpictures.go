// Package oddpictures has images as crawls have them: transparent ones, 16-bit ones, turned ones, and files whose other
// parts are broken. All show the same six squares.
//
// It is for tests. The stages and the Python package must see the same pictures, so both decode this one set.
package oddpictures

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	"os"
	"path/filepath"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// The size of a picture, which has three squares in a row.
const (
	Side   = 16
	Width  = 3 * Side
	Height = 2 * Side
)

// Picture is an encoded image and the colours of its squares.
type Picture struct {
	Name    string
	Encoded []byte
	Want    [6][3]byte
	Within  int // levels by which a square may differ in its middle; 0: all pixels are exact
}

var (
	colours = [6][3]byte{{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}, {0, 0, 0}, {255, 255, 0}}
	holed   = [6][3]byte{{255, 255, 255}, {0, 255, 0}, {0, 0, 255}, {255, 255, 255}, {0, 0, 0}, {255, 255, 0}}
)

// square returns the number of the square at a place.
func square(x, y int) int { return 3*(y/Side) + x/Side }

// All returns the set. testdata is the folder of package imaging's files.
func All(t testing.TB, testdata string) []Picture {
	t.Helper()
	return append(append(pngs(), jpegs(t)...), webps(t, testdata)...)
}

const (
	lossy = 6 // levels that a JPEG's squares may be off
	exif  = 0xe1
)

// tiff is an Exif block without its first six bytes. kind 3 is SHORT, 4 LONG.
func tiff(order binary.AppendByteOrder, kind uint16, orientation uint32) []byte {
	out := []byte("II*\x00")
	if order.AppendUint16(nil, 1)[0] == 0 {
		out = []byte("MM\x00*")
	}
	out = order.AppendUint16(order.AppendUint32(out, 8), 1)
	out = order.AppendUint32(order.AppendUint16(order.AppendUint16(out, 0x0112), kind), 1)
	if kind == 3 {
		out = order.AppendUint16(order.AppendUint16(out, uint16(orientation)), 0)
	} else {
		out = order.AppendUint32(out, orientation)
	}
	return order.AppendUint32(out, 0)
}

func segment(marker byte, body []byte) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0xff, marker}, uint16(len(body)+2)), body...)
}

func exifOf(body []byte) []byte { return segment(exif, append([]byte("Exif\x00\x00"), body...)) }

// stored is the picture as a file has it that is to be turned.
func stored(orientation int) image.Image {
	w, h := Width, Height
	if orientation >= 5 {
		w, h = h, w
	}
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			ux, uy := x, y // the upright place of a stored pixel
			switch orientation {
			case 2:
				ux = w - 1 - x
			case 3:
				ux, uy = w-1-x, h-1-y
			case 4:
				uy = h - 1 - y
			case 5:
				ux, uy = y, x
			case 6:
				ux, uy = h-1-y, x
			case 7:
				ux, uy = h-1-y, w-1-x
			case 8:
				ux, uy = y, w-1-x
			}
			c := colours[square(ux, uy)]
			m.SetRGBA(x, y, color.RGBA{c[0], c[1], c[2], 255})
		}
	}
	return m
}

func jpegs(t testing.TB) []Picture {
	var out []Picture
	encode := func(orientation int) []byte {
		var b bytes.Buffer
		must.Do(t, jpeg.Encode(&b, stored(orientation), &jpeg.Options{Quality: 95}))
		return b.Bytes()
	}
	plain := encode(1)
	// add puts segments behind the start marker.
	add := func(name string, file []byte, segments ...[]byte) {
		encoded := append(bytes.Clone(file[:2]), append(bytes.Join(segments, nil), file[2:]...)...)
		out = append(out, Picture{name, encoded, colours, lossy})
	}
	names := [...]string{2: "mirrored", 3: "upside down", 4: "flipped", 5: "transposed", 6: "on its side", 7: "transversed", 8: "on its other side"}
	for o := 2; o <= 8; o++ {
		add("jpeg "+names[o], encode(o), exifOf(tiff(binary.LittleEndian, 3, uint32(o))))
	}
	side, upright, le := encode(6), tiff(binary.LittleEndian, 3, 1), binary.LittleEndian
	sideways := exifOf(tiff(le, 3, 6))
	add("jpeg with big-endian Exif", side, exifOf(tiff(binary.BigEndian, 3, 6)))
	add("jpeg with XMP before Exif", side, segment(exif, []byte("http://ns.adobe.com/xap/1.0/\x00<x:xmpmeta/>")), sideways)
	add("jpeg with two Exif blocks", side, exifOf(upright), sideways)
	add("jpeg with an invalid Exif block behind a valid one", side, sideways, exifOf(tiff(le, 3, 9)))
	add("jpeg with a LONG orientation", plain, exifOf(tiff(le, 4, 6)))
	add("jpeg with orientation 0", plain, exifOf(tiff(le, 3, 0)))
	add("jpeg with a directory behind the end", plain, exifOf(append(append(bytes.Clone(upright[:4]), 255, 255, 255, 127), upright[8:]...)))
	add("jpeg with a directory that is cut", plain, exifOf(tiff(le, 3, 6)[:14]))
	add("jpeg with noise for Exif", plain, exifOf([]byte("II*\x00\x08\x00\x00\x00\xff\xff\x01\x02\x03")))
	add("jpeg with a broken profile", plain, segment(0xe2, append([]byte("ICC_PROFILE\x00\x01\x01"), make([]byte, 128)...)))
	add("jpeg with a broken index of pictures", plain, segment(0xe2, []byte("MPF\x00II*\x00\xff\xff\xff\x7f")))
	add("jpeg with broken Photoshop data", plain, segment(0xed, []byte("Photoshop 3.0\x008BIM\x04\x04\x00")))
	add("jpeg with fill bytes", plain, []byte{0xff, 0xff, 0xff})
	add("jpeg with stray bytes", append(plain[:2:2], append([]byte{0, 0, 0}, plain[2:]...)...))
	add("jpeg with a page behind it", append(bytes.Clone(plain), "<html>"...))
	add("jpeg with a turned picture behind it", append(bytes.Clone(plain), out[4].Encoded...))
	return out
}

func webps(t testing.TB, testdata string) []Picture {
	read := func(name string) []byte { return must.Get(os.ReadFile(filepath.Join(testdata, name)))(t) }
	chunk := func(name string, body []byte) []byte {
		out := append(binary.LittleEndian.AppendUint32([]byte(name), uint32(len(body))), body...)
		return append(out, make([]byte, len(body)&1)...)
	}
	riff := func(chunks ...[]byte) []byte {
		body := append([]byte("WEBP"), bytes.Join(chunks, nil)...)
		return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(body))), body...)
	}
	vp8x := func(flags byte) []byte {
		return chunk("VP8X", []byte{flags, 0, 0, 0, Width - 1, 0, 0, Height - 1, 0, 0})
	}
	plain, clear, lossless := read("blocks.webp"), read("blocks_alpha.webp"), read("blocks_alpha_lossless.webp")
	alph, pixels := bytes.Index(clear, []byte("ALPH")), bytes.Index(clear, []byte("VP8 "))
	unsaid := bytes.Clone(lossless)
	unsaid[24] &^= 0x10 // the hint that there is alpha
	turned, unknown := chunk("EXIF", tiff(binary.LittleEndian, 3, 6)), chunk("ABCD", []byte("12345"))
	return []Picture{
		{"webp with alpha", clear, holed, lossy},
		{"webp with alpha that no flag names", riff(vp8x(0), clear[alph:]), holed, lossy},
		{"webp with alpha behind its pixels", riff(vp8x(0), plain[12:], clear[alph:pixels]), colours, lossy},
		{"webp with the flag of alpha and without alpha", riff(vp8x(0x10), plain[12:]), colours, lossy},
		{"webp with an orientation", riff(vp8x(0x08), plain[12:], turned), colours, lossy},
		{"webp with an orientation before its pixels", riff(vp8x(0x08), turned, plain[12:]), colours, lossy},
		{"webp with an unknown chunk", riff(vp8x(0), unknown, plain[12:]), colours, lossy},
		{"webp with bytes behind it", append(bytes.Clone(plain), make([]byte, 37)...), colours, lossy},
		{"lossless webp with alpha", lossless, holed, 0},
		{"lossless webp with alpha that no flag names", riff(vp8x(0), lossless[12:]), holed, 0},
		{"lossless webp with alpha and without its hint", unsaid, holed, 0},
		{"lossless webp with an orientation", riff(vp8x(0x18), lossless[12:], turned), holed, 0},
	}
}
