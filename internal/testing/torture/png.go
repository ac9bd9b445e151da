package torture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
)

// bomb describes a PNG of black pixels, which compress to a thousandth.
type bomb struct {
	w, h       int
	depth      byte // bits of a sample
	colour     byte // 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha
	interlaced bool
	filter     byte // of every row; 4 costs the most
	cut        int  // bytes to leave out at the end
	blocks     int  // bytes of empty compressed blocks before the pixels, each with codes of its own
}

func (p bomb) header() []byte {
	b := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(p.w)), uint32(p.h))
	interlace := byte(0)
	if p.interlaced {
		interlace = 1
	}
	return append(b, p.depth, p.colour, 0, 0, interlace)
}

func (p bomb) encode() []byte {
	b := append([]byte("\x89PNG\r\n\x1a\n"), chunk("IHDR", p.header())...)
	if p.colour == 3 {
		b = append(b, chunk("PLTE", make([]byte, 3))...)
	}
	b = append(b, chunk("IDAT", p.pixels())...)
	b = append(b, chunk("IEND", nil)...)
	return b[:len(b)-p.cut]
}

func (p bomb) pixels() []byte {
	if p.blocks > 0 {
		return emptyBlocks(p.blocks)
	}
	var out bytes.Buffer
	z, _ := zlib.NewWriterLevel(&out, zlib.BestSpeed) // a valid level
	for _, pass := range p.passes() {
		row := make([]byte, 1+(pass.w*p.bits()+7)/8)
		row[0] = p.filter
		for range pass.h {
			_, _ = z.Write(row) // memory never fails
		}
	}
	_ = z.Close()
	return out.Bytes()
}

// squeezed returns a gigabyte of zeros as zlib.
func squeezed() []byte {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	zeros(z, 1<<30)
	mustClose(z)
	return out.Bytes()
}

// emptyBlocks returns a zlib stream that gives nothing and never ends. Its blocks have nine bytes, and a reader builds
// the tables of codes for each.
func emptyBlocks(size int) []byte {
	w := &bits{b: []byte{0x78, 0x01}, n: 16}
	for len(w.b) < size {
		w.put(0b100, 3) // not the last; the codes come along
		w.put(0, 10)    // 257 symbols and one distance
		w.put(14, 4)    // 18 lengths of codes of lengths: 1 for "138 zeros" and for "1"
		for i := range 18 {
			length := uint32(0)
			if i == 2 || i == 17 {
				length = 1
			}
			w.put(length, 3)
		}
		w.put(1|127<<1, 8) // 138 zeros
		w.put(1|107<<1, 8) // 118 zeros
		w.put(0, 2)        // the end of a block and the one distance have codes of one bit
		w.put(0, 1)        // the end of the block
	}
	return w.b
}

type pass struct{ w, h int }

// passes returns the sizes of the pictures that an interlaced PNG consists of.
func (p bomb) passes() []pass {
	if !p.interlaced {
		return []pass{{p.w, p.h}}
	}
	var out []pass
	for _, a := range [][4]int{{8, 8, 0, 0}, {8, 8, 4, 0}, {4, 8, 0, 4}, {4, 4, 2, 0}, {2, 4, 0, 2}, {2, 2, 1, 0}, {1, 2, 0, 1}} {
		w, h := (p.w-a[2]+a[0]-1)/a[0], (p.h-a[3]+a[1]-1)/a[1]
		if w > 0 && h > 0 {
			out = append(out, pass{w, h})
		}
	}
	return out
}

func (p bomb) bits() int {
	samples := map[byte]int{0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[p.colour]
	return samples * int(p.depth)
}

func chunk(name string, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = append(append(b, name...), body...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
}
