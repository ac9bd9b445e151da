package torture

import (
	"bytes"
	"encoding/binary"
	"maps"
)

// most is the number of bytes that a file is filled up with, within what is read of an image.
const most = 19 << 20

// wrapped lists files whose pixels are few, and whose segments and chunks are many, large or strange.
func wrapped() map[string]func() []byte {
	out := map[string]func() []byte{
		"jpeg: EXIF of 19 MB":            func() []byte { return behindStart(small(), segments(0xe1, []byte("Exif\x00\x00II*\x00"), most)) },
		"jpeg: ICC profile of 19 MB":     func() []byte { return behindStart(small(), segments(0xe2, []byte("ICC_PROFILE\x00\x01\x01"), most)) },
		"jpeg: comments of 19 MB":        func() []byte { return behindStart(small(), segments(0xfe, nil, most)) },
		"jpeg: four million comments":    func() []byte { return behindStart(small(), bytes.Repeat([]byte{0xff, 0xfe, 0, 2}, most/4)) },
		"jpeg: 19 MB of fill bytes":      func() []byte { return behindStart(small(), bytes.Repeat([]byte{0xff}, most)) },
		"jpeg: 19 MB behind the end":     func() []byte { return append(small(), make([]byte, most)...) },
		"jpeg: 19 MB of restart markers": func() []byte { return behindStart(small(), bytes.Repeat([]byte{0xff, 0xd0}, most/2)) },
		"jpeg: 130,000 tables": func() []byte {
			return behindStart(small(), bytes.Repeat(segment(0xdb, append([]byte{0}, ones()...)), most/69/2))
		},
		"jpeg: 300,000 codes": func() []byte {
			return behindStart(small(), bytes.Repeat(segment(0xc4, append(append([]byte{0, 1}, make([]byte, 15)...), 0)), most/22/2))
		},
		"jpeg: two starts":             func() []byte { return append([]byte{0xff, 0xd8}, small()...) },
		"jpeg: two frames":             twoFrames,
		"jpeg: another picture inside": func() []byte { return behindStart(small(), segment(0xe1, small())) },
	}
	maps.Copy(out, wrappedOthers())
	for _, process := range []byte{0xc3, 0xc5, 0xc6, 0xc7, 0xc9, 0xca, 0xcb, 0xcd, 0xce, 0xcf} {
		out["jpeg: frame "+hex(process)] = func() []byte {
			return bytes.Replace(progressive{w: 8000, h: 8000, components: 3, sampling: 0x11, scans: 9}.encode(), []byte{0xff, 0xc2}, []byte{0xff, process}, 1)
		}
	}
	for _, orientation := range []byte{0, 6, 9} {
		out["jpeg: 64 megapixels, orientation "+hex(orientation)] = func() []byte {
			exif := append([]byte("Exif\x00\x00II*\x00\x08\x00\x00\x00\x01\x00\x12\x01\x03\x00\x01\x00\x00\x00"), orientation, 0, 0, 0)
			return behindStart(dense(8000, 8000, false), segment(0xe1, exif))
		}
	}
	return out
}

// wrappedOthers lists the files of other formats.
func wrappedOthers() map[string]func() []byte {
	return map[string]func() []byte{
		"png: 10,000 animated frames": func() []byte { return animated(10_000) },
		"png: an ICC profile of 4 GB": func() []byte {
			return besideHeader(dot(), chunk("iCCP", append([]byte("x\x00\x00"), squeezed()...)))
		},
		"png: a text of 1 GB": func() []byte {
			return besideHeader(dot(), chunk("zTXt", append([]byte("x\x00\x00"), squeezed()...)))
		},
		"png: a million empty chunks": func() []byte { return besideHeader(dot(), bytes.Repeat(chunk("teXt", nil), 1_000_000)) },
		"png: 1,600,000 empty chunks before a palette": func() []byte {
			return besideHeader(bomb{w: 1, h: 1, depth: 8, colour: 3}.encode(), bytes.Repeat(chunk("teXt", nil), 1_600_000))
		},
		"png: a million empty pixels": func() []byte { return besideHeader(dot(), bytes.Repeat(chunk("IDAT", nil), 1_000_000)) },
		"png: a chunk of 4 GB":        func() []byte { return besideHeader(dot(), []byte("\xff\xff\xff\xffteXt")) },
		"png: two headers": func() []byte {
			return besideHeader(dot(), chunk("IHDR", bomb{w: 60_000, h: 60_000, depth: 8}.header()))
		},
		"png: a palette of 300 colours": func() []byte { return besideHeader(dot(), chunk("PLTE", make([]byte, 900))) },
		"webp: 100,000 frames":          func() []byte { return frames(100_000) },
		"webp: a profile of 19 MB": func() []byte {
			return extended(0x20, append(part("ICCP", make([]byte, most)), part("VP8L", plain1x1())...))
		},
		"webp: a million small chunks": func() []byte { return extended(0, bytes.Repeat(part("ABCD", nil), 1_000_000)) },
		"webp: a chunk of 4 GB":        func() []byte { return extended(0, []byte("VP8L\xff\xff\xff\xff\x2f")) },
		"gif: 10,000 frames": func() []byte {
			return append([]byte("GIF89a\xff\xff\xff\xff\x00\x00\x00"), bytes.Repeat([]byte("\x2c\x00\x00\x00\x00\xff\xff\xff\xff\x00\x08\x00"), 10_000)...)
		},
		"svg: a billion laughs": func() []byte { return []byte(`<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "&a;&a;">]><svg>&a;</svg>`) },
		"tiff: a loop":          func() []byte { return []byte("II*\x00\x08\x00\x00\x00\x00\x00\x08\x00\x00\x00") },
		"bmp: 4,000,000,000 x 1": func() []byte {
			return []byte("BM\xff\xff\xff\xff\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x00\x28\x6b\xee\x01\x00\x00\x00\x01\x00\x18\x00")
		},
		"avif: a box of 8 EB": func() []byte { return []byte("\x00\x00\x00\x01ftypavif\x7f\xff\xff\xff\xff\xff\xff\xff") },
	}
}

func hex(b byte) string { return string([]byte{"0123456789abcdef"[b>>4], "0123456789abcdef"[b&15]}) }

// small is a JPEG of 64 x 64 pixels.
func small() []byte { return dense(64, 64, false) }

// dot is a PNG of one pixel.
func dot() []byte { return bomb{w: 1, h: 1, depth: 8}.encode() }

// behindStart puts bytes behind the first marker of a JPEG.
func behindStart(jpeg, what []byte) []byte { return append(append(jpeg[:2:2], what...), jpeg[2:]...) }

// segments returns segments of a marker that begin alike and have size bytes together.
func segments(marker byte, head []byte, size int) (out []byte) {
	body := append(bytes.Clone(head), make([]byte, 65_000-len(head))...)
	for len(out) < size {
		out = append(out, segment(marker, body)...)
	}
	return out
}

// twoFrames declares 64 x 64 pixels, and 8,000 x 8,000 of a progressive frame behind that.
func twoFrames() []byte {
	large := progressive{w: 8000, h: 8000, components: 1, sampling: 0x11, scans: 9}.encode()
	return behindStart(large, segment(0xc0, []byte{8, 0, 64, 0, 64, 1, 1, 0x11, 0}))
}

// besideHeader puts bytes behind the first chunk of a PNG.
func besideHeader(png, what []byte) []byte {
	const header = 8 + 25
	return append(append(png[:header:header], what...), png[header:]...)
}

// animated is a PNG of one pixel with further frames, which viewers play.
func animated(n uint32) []byte {
	var all []byte
	all = append(all, chunk("acTL", binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, n), 0))...)
	pixels := bomb{w: 1, h: 1, depth: 8}.pixels()
	for i := range n {
		control := binary.BigEndian.AppendUint32(nil, 2*i)
		control = append(control, "\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00\x00"...)
		all = append(all, chunk("fcTL", control)...)
		all = append(all, chunk("fdAT", append(binary.BigEndian.AppendUint32(nil, 2*i+1), pixels...))...)
	}
	return besideHeader(dot(), all)
}

// part is a chunk of a WebP.
func part(name string, body []byte) []byte {
	b := append(binary.LittleEndian.AppendUint32([]byte(name), uint32(len(body))), body...)
	return append(b, make([]byte, len(body)%2)...)
}

// extended is a WebP of chunks behind an extended header of one pixel.
func extended(flags byte, parts []byte) []byte {
	b := append([]byte("WEBP"), part("VP8X", []byte{flags, 0, 0, 0, 0, 0, 0, 0, 0, 0})...)
	b = append(b, parts...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(b))), b...)
}

// plain1x1 is the bitstream of a lossless WebP of one pixel.
func plain1x1() []byte { return lossless{w: 1, h: 1}.encode()[20:] }

// frames is an animated WebP.
func frames(n int) []byte {
	frame := part("ANMF", append(make([]byte, 16), part("VP8L", plain1x1())...))
	return extended(0x02, append(part("ANIM", make([]byte, 6)), bytes.Repeat(frame, n)...))
}
