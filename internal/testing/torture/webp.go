package torture

import "encoding/binary"

// lossless describes a lossless WebP of one colour: its pixels take no bits at all.
type lossless struct {
	w, h       int
	transforms []int // 0 predictor, 1 cross-colour, 2 subtract green
	groups     bool  // 65,536 groups of Huffman codes
}

// bits are written from the lowest of each byte.
type bits struct {
	b []byte
	n int
}

func (w *bits) put(value uint32, count int) {
	for i := range count {
		if w.n%8 == 0 {
			w.b = append(w.b, 0)
		}
		w.b[w.n/8] |= byte(value>>i&1) << (w.n % 8)
		w.n++
	}
}

// constant writes five Huffman codes of one symbol each. Every pixel then has the same colour and takes no bits.
func (w *bits) constant() {
	for range 5 {
		w.put(0b0001, 4) // a simple code, of one symbol, of one bit, which is 0
	}
}

func (p lossless) encode() []byte {
	w := &bits{}
	w.put(0x2f, 8)
	w.put(uint32(p.w-1), 14)
	w.put(uint32(p.h-1), 14)
	w.put(0, 4)
	for _, t := range p.transforms {
		w.put(1, 1)
		w.put(uint32(t), 2)
		if t < 2 {
			w.put(0, 3) // blocks of 4 x 4
			w.put(0, 1) // no colour cache
			w.constant()
		}
	}
	w.put(0, 1) // no more transforms
	w.put(0, 1) // no colour cache
	if p.groups {
		w.entropy(p.w, p.h)
	} else {
		w.put(0, 1)
		w.constant()
	}
	body := w.b
	if len(body)%2 == 1 {
		body = append(body, 0)
	}
	return riff("VP8L", body)
}

// entropy writes an entropy image whose last pixel asks for group 65,535, and the codes of all groups.
func (w *bits) entropy(width, height int) {
	w.put(1, 1)
	w.put(0, 3) // blocks of 4 x 4
	w.put(0, 1) // no colour cache
	for channel := range 5 {
		if channel > 1 {
			w.put(0b0001, 4)
			continue
		}
		w.put(0b111, 3) // green and red: a simple code, of two symbols, the first of eight bits
		w.put(0, 8)
		w.put(255, 8)
	}
	last := ((width+3)/4)*((height+3)/4) - 1
	for range last {
		w.put(0, 2)
	}
	w.put(3, 2)
	for range 1 << 16 {
		w.constant()
	}
}

func riff(name string, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("WEBP"+name), uint32(len(body)))
	b = append(b, body...)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(len(b))), b...)
}

// lossy returns a lossy WebP whose coefficients are noise.
func lossy(w, h, bytes int, noise func() byte) []byte {
	first := w*h/256*2 + 1000
	tag := uint32(first)<<5 | 1<<4 // a key frame that is shown
	b := []byte{byte(tag), byte(tag >> 8), byte(tag >> 16), 0x9d, 0x01, 0x2a}
	b = binary.LittleEndian.AppendUint16(b, uint16(w))
	b = binary.LittleEndian.AppendUint16(b, uint16(h))
	b = append(b, 0, 0) // colour space, clamping, no segments, the simple filter, level 0
	for len(b) < bytes&^1 {
		b = append(b, noise())
	}
	return riff("VP8 ", b)
}
