package jpeg

import (
	"encoding/binary"
)

// lookBits is how many bits are looked up at once: a code, and the number behind it if that fits too.
const lookBits = 10

// Entries of a table of codes: length 0 stands for a code that is longer than lookBits, or none.
//
//	bits 0..5    how many bits to pass over
//	bits 8..15   symbol: zeros before the number, and the number's bits
//	bits 16..31  the number, if valued is set
//	bit 7        valued
const valued = 1 << 7

// huffman is a table of codes.
type huffman struct {
	look    [1 << lookBits]uint32
	symbols []byte
	limit   [17]uint32 // of the codes of a length, 16 bits wide: the first that is longer
	offset  [17]int32  // of a length: what makes a symbol's place of a code
}

func (f *file) huffmanTables(b []byte) bool {
	for len(b) > 0 {
		if len(b) < 17 || b[0]>>4 > 1 || b[0]&15 > 1 {
			return false
		}
		class, number, counts := b[0]>>4, b[0]&15, b[1:17]
		n := 0
		for _, count := range counts {
			n += int(count)
		}
		if n == 0 || n > 256 || len(b) < 17+n {
			return false
		}
		h := newHuffman(counts, b[17:17+n])
		if h == nil {
			return false
		}
		f.huffman[class][number], b = h, b[17+n:]
	}
	return true
}

// newHuffman makes a table; nil if the codes do not fit into their lengths.
func newHuffman(counts, symbols []byte) *huffman {
	h := &huffman{symbols: symbols}
	code, place := 0, 0
	for i, count := range counts {
		length := i + 1
		h.offset[length] = int32(place - code)
		for range int(count) {
			if code >= 1<<length {
				return nil
			}
			if length <= lookBits {
				h.enter(code, length, symbols[place])
			}
			code++
			place++
		}
		h.limit[length] = uint32(code) << (16 - length)
		code <<= 1
	}
	return h
}

// enter fills in all that begins with a code.
func (h *huffman) enter(code, length int, symbol byte) {
	size := int(symbol & 15)
	for tail := range 1 << (lookBits - length) {
		entry := uint32(length) | uint32(symbol)<<8
		if free := lookBits - length - size; free >= 0 {
			number := extend(uint32(tail)>>free, size)
			entry = uint32(length+size) | valued | uint32(symbol)<<8 | uint32(uint16(number))<<16
		}
		h.look[code<<(lookBits-length)|tail] = entry
	}
}

// extend is the number that size bits stand for: those that begin with a zero are negative.
func extend(raw uint32, size int) int32 {
	if size == 0 {
		return 0
	}
	if raw>>(size-1) == 0 {
		return int32(raw) - (1<<size - 1)
	}
	return int32(raw)
}

// bitReader hands out bits. Beyond a marker, and beyond the end, it hands out zeros, and left becomes negative.
type bitReader struct {
	rest []byte // not yet in next
	next uint64 // the first bits are the next ones
	left int    // of them are real
}

// fill makes at least 48 bits ready where there are as many.
func (in *bitReader) fill() {
	if in.left < 0 {
		return
	}
	if len(in.rest) >= 8 {
		word := binary.BigEndian.Uint64(in.rest)
		// A byte 0xff says that something special follows: ^word has a byte of zero there.
		if inverse := ^word; (inverse-0x0101010101010101)&^inverse&0x8080808080808080 == 0 {
			in.next |= word >> uint(in.left)
			taken := (63 - in.left) >> 3
			in.rest = in.rest[taken:]
			in.left += taken << 3
			return
		}
	}
	in.fillSlowly()
}

func (in *bitReader) fillSlowly() {
	if in.left < 64 {
		in.next = in.next >> uint(64-in.left) << uint(64-in.left) // what a fill has left behind there comes again
	}
	for in.left <= 56 && len(in.rest) > 0 {
		b := in.rest[0]
		if b == 0xff {
			if len(in.rest) < 2 || in.rest[1] != 0 {
				return
			}
			in.rest = in.rest[1:] // 0xff 0x00 stands for 0xff
		}
		in.rest = in.rest[1:]
		in.next |= uint64(b) << uint(56-in.left)
		in.left += 8
	}
}

// skip passes over bits.
func (in *bitReader) skip(n int) {
	in.next <<= uint(n)
	in.left -= n
}

// ended says whether all bits up to a marker were needed, but for those that fill the last byte up.
func (in *bitReader) ended() bool {
	in.fill()
	return in.left >= 0 && in.left < 8
}

// restart passes over the marker of a restart.
func (in *bitReader) restart(number byte) bool {
	if !in.ended() || len(in.rest) < 2 || in.rest[0] != 0xff || in.rest[1] != markerRST0+number&7 {
		return false
	}
	*in = bitReader{rest: in.rest[2:]}
	return true
}

// symbol reads a code that look does not have.
func (h *huffman) symbol(in *bitReader) (byte, bool) {
	head := uint32(in.next >> 48)
	for length := lookBits + 1; length <= 16; length++ {
		if head < h.limit[length] {
			place := int32(head>>(16-length)) + h.offset[length]
			in.skip(length)
			return h.symbols[place], true
		}
	}
	return 0, false
}

// number reads size bits.
func (in *bitReader) number(size int) int32 {
	raw := uint32(in.next >> 1 >> uint(63-size))
	in.skip(size)
	return extend(raw, size)
}

// places are the coefficients' in a block, in the order of the file. A block is kept with rows and columns exchanged.
var places = func() (p [64]uint8) {
	x, y, step := 0, 0, 1 // up and to the right, then down and to the left, in turns
	for i := range p {
		p[i] = uint8(8*x + y)
		switch {
		case step > 0 && x == 7, step < 0 && y != 7 && x == 0:
			y++
			step = -step
		case step > 0 && y == 0, step < 0 && y == 7:
			x++
			step = -step
		default:
			x += step
			y -= step
		}
	}
	return p
}()

// block decodes a block into the plane at dst.
func (c *component) block(in *bitReader, dst []byte) bool {
	in.fill()
	entry := c.dc.look[in.next>>(64-lookBits)]
	var delta int32
	if entry&valued != 0 {
		in.skip(int(entry & 0x3f))
		delta = int32(int16(entry >> 16))
		if entry>>8&0xff > 15 {
			return false
		}
	} else {
		symbol, ok := c.dc.longer(in, entry)
		if !ok || symbol > 15 {
			return false
		}
		delta = in.number(int(symbol))
	}
	c.previous += delta
	var b [64]int32
	last, ok := c.coefficients(in, &b)
	if !ok || in.left < 0 {
		return false
	}
	b[0] = c.previous * c.quant[0]
	if last == 0 {
		flat(dst, c.stride, b[0])
		return true
	}
	transform(dst, c.stride, &b)
	return true
}

// longer reads a symbol whose number is not in the table.
func (h *huffman) longer(in *bitReader, entry uint32) (byte, bool) {
	if length := entry & 0x3f; length != 0 {
		in.skip(int(length))
		return byte(entry >> 8), true
	}
	return h.symbol(in)
}

// coefficients reads all but the first, multiplied; last is the place in the file's order of the last that is there.
func (c *component) coefficients(in *bitReader, b *[64]int32) (last int, ok bool) {
	const endOfBlock, sixteenZeros = 0x00, 0xf0
	next, left := in.next, in.left // in registers, as most of the time goes into this loop
	look := &c.ac.look
	for k := 1; k < 64; k++ {
		if left < 32 {
			in.next, in.left = next, left
			in.fill()
			next, left = in.next, in.left
		}
		entry := look[next>>(64-lookBits)]
		symbol, number := byte(entry>>8), int32(int16(entry>>16))
		if entry&valued != 0 {
			next <<= entry & 0x3f
			left -= int(entry & 0x3f)
		} else {
			in.next, in.left = next, left
			if symbol, ok = c.ac.longer(in, entry); !ok {
				return 0, false
			}
			number = in.number(int(symbol & 15))
			next, left = in.next, in.left
		}
		if symbol&15 == 0 {
			if symbol == sixteenZeros {
				k += 15
				continue
			}
			in.next, in.left = next, left
			return last, symbol == endOfBlock
		}
		k += int(symbol >> 4)
		if k > 63 {
			return 0, false
		}
		b[places[k]&63] = number * c.quant[k]
		last = k
	}
	in.next, in.left = next, left
	return last, true
}
