package oddpictures

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
)

// The colour types of PNG.
const (
	grey = iota
	_
	rgb
	palette
	greyAlpha
	_
	rgba
)

// samplesOf is the number of samples of a pixel by colour type.
var samplesOf = [...]int{grey: 1, rgb: 3, palette: 1, greyAlpha: 2, rgba: 4}

func pngChunk(name string, body []byte) []byte {
	out := append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), name...)
	out = append(out, body...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[4:]))
}

func deflated(raw []byte) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(raw) // a bytes.Buffer takes everything
	_ = w.Close()
	return b.Bytes()
}

// png encodes squares of the given samples, each of depth bits. Chunks come before the pixels.
func png(depth, colour byte, samples [6][]uint16, chunks ...[]byte) []byte {
	var rows []byte
	for y := range Height {
		rows = append(rows, 0) // no filter
		var bits, used uint16
		for x := range Width {
			for _, v := range samples[square(x, y)][:samplesOf[colour]] {
				switch depth {
				case 16:
					rows = binary.BigEndian.AppendUint16(rows, v)
				case 8:
					rows = append(rows, byte(v))
				default:
					bits, used = bits<<depth|v, used+uint16(depth)
					if used == 8 {
						rows, bits, used = append(rows, byte(bits)), 0, 0
					}
				}
			}
		}
	}
	ihdr := []byte{0, 0, 0, Width, 0, 0, 0, Height, depth, colour, 0, 0, 0}
	out := append([]byte("\x89PNG\r\n\x1a\n"), pngChunk("IHDR", ihdr)...)
	out = append(out, bytes.Join(chunks, nil)...)
	return append(append(out, pngChunk("IDAT", deflated(rows))...), pngChunk("IEND", nil)...)
}

// every gives each square the same number of samples.
func every(values ...[]uint16) (out [6][]uint16) {
	copy(out[:], values)
	return out
}

func greys(levels ...byte) (out [6][3]byte) {
	for i, l := range levels {
		out[i] = [3]byte{l, l, l}
	}
	return out
}

// set collects PNG files, whose pixels are exact.
type set []Picture

func (s *set) add(name string, want [6][3]byte, encoded []byte) {
	*s = append(*s, Picture{"png " + name, encoded, want, 0})
}

func trns(body ...byte) []byte { return pngChunk("tRNS", body) }

func pngs() []Picture {
	var out set
	out.alpha()
	out.grey()
	out.fewBits()
	out.keyed()
	out.surrounded()
	return out
}

var (
	full = every([]uint16{255, 0, 0}, []uint16{0, 255, 0}, []uint16{0, 0, 255}, []uint16{255, 255, 255}, []uint16{0, 0, 0}, []uint16{255, 255, 0})

	// Squares of one hidden colour under several alphas, and what is seen of them.
	under = every([]uint16{200, 40, 0, 0}, []uint16{200, 40, 0, 51}, []uint16{200, 40, 0, 128}, []uint16{200, 40, 0, 204}, []uint16{200, 40, 0, 254}, []uint16{200, 40, 0, 255})
	over  = [6][3]byte{{255, 255, 255}, {244, 212, 204}, {227, 147, 127}, {211, 83, 51}, {200, 41, 1}, {200, 40, 0}}
)

// alpha adds files with an alpha channel, or a palette with one.
func (s *set) alpha() {
	s.add("with alpha", over, png(8, rgba, under))
	wide := under
	for i, u := range under {
		wide[i] = []uint16{u[0]<<8 | 255, u[1] << 8, u[2]<<8 | 1, u[3]<<8 | 77}
	}
	s.add("with alpha, 16-bit", over, png(16, rgba, wide))
	s.add("grey with alpha", greys(255, 55, 155, 0, 128, 255), png(8, greyAlpha, every([]uint16{10, 0}, []uint16{55, 255}, []uint16{55, 128}, []uint16{0, 255}, []uint16{128, 255}, []uint16{255, 255})))
	s.add("grey with alpha, 16-bit", greys(255, 55, 155, 0, 128, 255), png(16, greyAlpha, every([]uint16{9, 0}, []uint16{55 << 8, 65535}, []uint16{55<<8 | 9, 128 << 8}, []uint16{255, 65535}, []uint16{128 << 8, 65535}, []uint16{65535, 65535})))
	index := every([]uint16{0}, []uint16{1}, []uint16{2}, []uint16{3}, []uint16{4}, []uint16{5})
	table := bytes.Repeat([]byte{200, 40, 0}, 6)
	s.add("of a palette with alpha", over, png(8, palette, index, pngChunk("PLTE", table), trns(0, 51, 128, 204, 254)))
}

func (s *set) grey() {
	steps := every([]uint16{0}, []uint16{0x3fff}, []uint16{0x4000}, []uint16{0x8080}, []uint16{0xfeff}, []uint16{0xffff})
	s.add("grey, 16-bit", greys(0, 63, 64, 128, 254, 255), png(16, grey, steps))
	s.add("grey with a clear level, 16-bit", greys(0, 63, 64, 255, 254, 255), png(16, grey, steps, trns(0x80, 0x80)))
	s.add("grey with a clear level that only its lower half tells apart", greys(0, 63, 64, 128, 254, 255), png(16, grey, steps, trns(0x80, 0x81)))
	s.add("grey with a clear level", greys(255, 63, 64, 128, 254, 255), png(8, grey, every([]uint16{0}, []uint16{63}, []uint16{64}, []uint16{128}, []uint16{254}, []uint16{255}), trns(0, 0)))
}

// fewBits adds files of less than 8 bits a pixel.
func (s *set) fewBits() {
	for depth, levels := range map[byte][]uint16{1: {0, 1, 0, 1, 1, 0}, 2: {0, 1, 2, 3, 1, 2}, 4: {0, 1, 7, 8, 14, 15}} {
		var samples [6][]uint16
		var want, holes [6][3]byte
		for i, l := range levels {
			v := byte(int(l) * 255 / (1<<depth - 1))
			samples[i], want[i], holes[i] = []uint16{l}, [3]byte{v, v, v}, [3]byte{v, v, v}
			if l == levels[0] {
				holes[i] = [3]byte{255, 255, 255}
			}
		}
		name := map[byte]string{1: "1-bit", 2: "2-bit", 4: "4-bit"}[depth]
		s.add("grey, "+name, want, png(depth, grey, samples))
		s.add("grey with a clear level, "+name, holes, png(depth, grey, samples, trns(0, 0)))
		table := make([]byte, 3<<depth)
		for i, l := range levels {
			copy(table[3*l:], over[i][:])
		}
		var indexed, seen [6][3]byte
		for i, l := range levels {
			copy(indexed[i][:], table[3*l:])
			if seen[i] = indexed[i]; l == 0 {
				seen[i] = [3]byte{255, 255, 255}
			}
		}
		s.add("of a palette, "+name, indexed, png(depth, palette, samples, pngChunk("PLTE", table)))
		s.add("of a palette with a clear colour, "+name, seen, png(depth, palette, samples, pngChunk("PLTE", table), trns(0)))
	}
}

// keyed adds files in which one colour is transparent.
func (s *set) keyed() {
	s.add("with a clear colour", holed, png(8, rgb, full, trns(0, 255, 0, 0, 0, 0)))
	deep := every([]uint16{0x1234, 5, 6}, []uint16{0x1235, 5, 6}, []uint16{0x1234, 5, 7}, []uint16{65535, 65535, 65535}, []uint16{0, 0, 0}, []uint16{65535, 0x80ff, 255})
	upper := [6][3]byte{{0x12, 0, 0}, {0x12, 0, 0}, {0x12, 0, 0}, {255, 255, 255}, {0, 0, 0}, {255, 128, 0}}
	s.add("16-bit", upper, png(16, rgb, deep))
	upper[0] = [3]byte{255, 255, 255}
	s.add("with a clear colour, 16-bit", upper, png(16, rgb, deep, trns(0x12, 0x34, 0, 5, 0, 6)))
}

// surrounded adds files with chunks on which the pixels do not depend.
func (s *set) surrounded() {
	plain := png(8, rgb, full)
	turned := pngChunk("eXIf", tiff(binary.LittleEndian, 3, 6))
	s.add("with an orientation", colours, png(8, rgb, full, turned))
	s.add("with a broken profile", colours, png(8, rgb, full, pngChunk("iCCP", append([]byte("odd\x00\x00"), deflated(make([]byte, 2<<20))...))))
	s.add("with a long text", colours, png(8, rgb, full, pngChunk("zTXt", append([]byte("Comment\x00\x00"), deflated(make([]byte, 2<<20))...))))
	s.add("with gamma", colours, png(8, rgb, full, pngChunk("gAMA", binary.BigEndian.AppendUint32(nil, 45455))))
	frame := []byte{0, 0, 0, 0, 0, 0, 0, Width, 0, 0, 0, Height, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0}
	s.add("that is animated", colours, png(8, rgb, full, pngChunk("acTL", []byte{0, 0, 0, 1, 0, 0, 0, 0}), pngChunk("fcTL", frame)))
	s.add("with a broken animation", colours, png(8, rgb, full, pngChunk("acTL", []byte{0, 0, 0, 9, 0, 0, 0, 0}), pngChunk("fcTL", frame[:8])))
	s.add("with bytes behind it", colours, append(bytes.Clone(plain), make([]byte, 100)...))
}
