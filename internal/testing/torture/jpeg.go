package torture

import "encoding/binary"

// progressive describes a JPEG whose scans say that all coefficients are zero. It takes a few bytes for millions of
// pixels.
type progressive struct {
	w, h, components int
	sampling         byte // of the first component, 0x11 to 0x22
	scans            int  // besides the first
	tem              bool // put the marker FF 01, which has no length, where a parser may take it for one that has
	refine           bool // the scans refine bits: decoders look at every coefficient
	cut              bool // leave out the end mark, so that one decoder after the other does all the work
}

func (p progressive) encode() []byte {
	b := []byte{0xff, 0xd8}
	b = append(b, segment(0xee, []byte("Adobe\x00\x64\x00\x00\x00\x00\x00"))...) // four components are CMYK
	if p.components < 4 {
		b = b[:2]
	}
	b = append(b, segment(0xdb, append([]byte{0}, ones()...))...)
	frame := []byte{8, byte(p.h >> 8), byte(p.h), byte(p.w >> 8), byte(p.w), byte(p.components)}
	for c := range p.components {
		sampling := byte(0x11)
		if c == 0 {
			sampling = p.sampling
		}
		frame = append(frame, byte(c+1), sampling, 0)
	}
	b = append(b, segment(0xc2, frame)...)
	b = append(b, segment(0xc4, append(append([]byte{0x00, 1}, make([]byte, 15)...), 0))...)    // DC: code 0 is a difference of 0
	b = append(b, segment(0xc4, append(append([]byte{0x10, 1}, make([]byte, 15)...), 0xe0))...) // AC: code 0 ends 16,384 blocks and more
	b = append(b, p.first()...)
	if p.tem {
		b = append(b, 0xff, 0x01)
	}
	for i := range p.scans {
		b = append(b, p.empty(byte(i%p.components+1), i/p.components)...)
	}
	if p.cut {
		return b
	}
	return append(b, 0xff, 0xd9)
}

// first returns the scan of the DC coefficients: a bit for every block.
func (p progressive) first() []byte {
	head := []byte{byte(p.components)}
	for c := range p.components {
		head = append(head, byte(c+1), 0)
	}
	across, down := int(p.sampling>>4), int(p.sampling&15)
	units := ((p.w + 8*across - 1) / (8 * across)) * ((p.h + 8*down - 1) / (8 * down))
	blocks := units * (across*down + p.components - 1)
	if p.components == 1 {
		blocks = ((p.w + 7) / 8) * ((p.h + 7) / 8)
	}
	return append(segment(0xda, append(head, 0, 0, 0)), zeroBits(blocks)...)
}

// lowest is the last bit that a first scan may leave out.
const lowest = 13

// empty returns scan number n of the AC coefficients of one component, all of them zero.
func (p progressive) empty(component byte, n int) []byte {
	w, h := p.w, p.h
	if component > 1 {
		w, h = w/int(p.sampling>>4), h/int(p.sampling&15)
	}
	runs := (((w+7)/8)*((h+7)/8) + 16383) / 16384
	// A run is 15 zero bits: the code, and a length of no more than 16,384 blocks.
	approximation := byte(0)
	if p.refine {
		approximation = lowest
		if n > 0 {
			n = (n-1)%lowest + 1
			approximation = byte(lowest-n+1)<<4 | byte(lowest-n)
		}
	}
	return append(segment(0xda, []byte{1, component, 0, 1, 63, approximation}), zeroBits(15*runs)...)
}

// dense returns a grey baseline JPEG without zero coefficients: two bits for each.
func dense(w, h int, cut bool) []byte {
	b := append([]byte{0xff, 0xd8}, segment(0xdb, append([]byte{0}, ones()...))...)
	b = append(b, segment(0xc0, []byte{8, byte(h >> 8), byte(h), byte(w >> 8), byte(w), 1, 1, 0x11, 0})...)
	b = append(b, segment(0xc4, append(append([]byte{0x00, 1}, make([]byte, 15)...), 1))...)
	b = append(b, segment(0xc4, append(append([]byte{0x10, 1}, make([]byte, 15)...), 1))...)
	b = append(b, segment(0xda, []byte{1, 1, 0, 0, 63, 0})...)
	b = append(b, make([]byte, w*h*2/8)...)
	if cut {
		return b
	}
	return append(b, 0xff, 0xd9)
}

func segment(marker byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0xff, marker}, uint16(len(body)+2))
	return append(b, body...)
}

// zeroBits returns n bits of 0, padded with ones.
func zeroBits(n int) []byte {
	b := make([]byte, (n+7)/8)
	if n%8 != 0 {
		b[len(b)-1] = 0xff >> (n % 8)
	}
	return b
}

func ones() []byte {
	b := make([]byte, 64)
	for i := range b {
		b[i] = 1
	}
	return b
}
