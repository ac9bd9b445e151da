package jpeg

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/jpeg"
	"sync"
)

// Decode returns the image of a file.
func Decode(encoded []byte) (image.Image, error) {
	if m, ok := plain(encoded); ok {
		return m, nil
	}
	return jpeg.Decode(bytes.NewReader(encoded))
}

// Recycle gives the planes of an image that [Decode] returned back, for the next Decode to use. The image must not be used
// any more.
func Recycle(m image.Image) {
	if m, ok := m.(*image.YCbCr); ok {
		// The three planes are one piece, as image.NewYCbCr makes them, and the first of them reaches to its end.
		room := m.Y[:cap(m.Y)]
		spare.Put(&room)
	}
}

// spare has planes that are in use no more.
var spare sync.Pool

// newYCbCr is image.NewYCbCr, whose pixels may be anything: every block is going to be written.
func newYCbCr(size image.Rectangle, ratio image.YCbCrSubsampleRatio, chromaWidth, chromaHeight int) *image.YCbCr {
	w, h := size.Dx(), size.Dy()
	luma, chroma := w*h, chromaWidth*chromaHeight
	total := luma + 2*chroma
	room, ok := spare.Get().(*[]byte)
	if !ok || cap(*room) < total {
		fresh := make([]byte, total)
		room = &fresh
	}
	pix := (*room)[:total]
	return &image.YCbCr{
		Y: pix[:luma], Cb: pix[luma : luma+chroma : luma+chroma], Cr: pix[luma+chroma : total : total],
		SubsampleRatio: ratio, YStride: w, CStride: chromaWidth, Rect: size,
	}
}

// Markers, each after a byte 0xff.
const (
	markerSOF0  = 0xc0 // frame, baseline
	markerDHT   = 0xc4 // Huffman tables
	markerRST0  = 0xd0 // the first of eight restarts
	markerSOI   = 0xd8
	markerEOI   = 0xd9
	markerSOS   = 0xda // scan
	markerDQT   = 0xdb // quantization tables
	markerDRI   = 0xdd // restart interval
	markerAPP0  = 0xe0
	markerAPP14 = 0xee // of Adobe, which may say that the components are red, green and blue
	markerAPP15 = 0xef
	markerCOM   = 0xfe
)

// component is one of a frame's planes.
type component struct {
	id           byte
	across, down int // blocks of a unit
	quant        *[64]int32
	dc, ac       *huffman
	pix          []byte
	stride       int
	previous     int32 // DC
}

// file is what has been read of a file.
type file struct {
	rest          []byte
	width, height int
	components    []component
	quant         [4]*[64]int32
	huffman       [2][2]*huffman // DC and AC
	restart       int            // units between two restarts; 0: none
	image         image.Image
}

// plain decodes a file that is plain and without fault; false is no verdict.
func plain(encoded []byte) (image.Image, bool) {
	f := file{rest: encoded}
	if !f.marker(markerSOI) {
		return nil, false
	}
	for len(f.rest) >= 4 && f.rest[0] == 0xff {
		kind, length := f.rest[1], int(binary.BigEndian.Uint16(f.rest[2:]))
		if length < 2 || len(f.rest) < 2+length {
			return nil, false
		}
		segment := f.rest[4 : 2+length]
		f.rest = f.rest[2+length:]
		if kind == markerSOS {
			return f.image, f.scan(segment) && f.marker(markerEOI)
		}
		if !f.segment(kind, segment) {
			return nil, false
		}
	}
	return nil, false
}

// marker passes over a marker if it comes next.
func (f *file) marker(kind byte) bool {
	if len(f.rest) < 2 || f.rest[0] != 0xff || f.rest[1] != kind {
		return false
	}
	f.rest = f.rest[2:]
	return true
}

// segment reads what stands before the scan.
func (f *file) segment(kind byte, b []byte) bool {
	switch kind {
	case markerSOF0:
		return f.frame(b)
	case markerDHT:
		return f.huffmanTables(b)
	case markerDQT:
		return f.quantTables(b)
	case markerDRI:
		if len(b) != 2 {
			return false
		}
		f.restart = int(binary.BigEndian.Uint16(b))
		return true
	case markerAPP14:
		const transformYCbCr = 1
		return len(b) >= 12 && bytes.HasPrefix(b, []byte("Adobe")) && b[11] == transformYCbCr
	}
	return kind >= markerAPP0 && kind <= markerAPP15 || kind == markerCOM
}

func (f *file) quantTables(b []byte) bool {
	for len(b) > 0 {
		width, number := int(b[0]>>4)+1, b[0]&15
		if width > 2 || number > 3 || len(b) < 1+64*width {
			return false
		}
		table := new([64]int32)
		for i := range table {
			if width == 1 {
				table[i] = int32(b[1+i])
			} else {
				table[i] = int32(binary.BigEndian.Uint16(b[1+2*i:]))
			}
		}
		f.quant[number], b = table, b[1+64*width:]
	}
	return true
}

// frame reads the size and the components.
func (f *file) frame(b []byte) bool {
	if f.components != nil || len(b) < 6 || b[0] != 8 || len(b) != 6+3*int(b[5]) || b[5] != 1 && b[5] != 3 {
		return false
	}
	f.height, f.width = int(binary.BigEndian.Uint16(b[1:])), int(binary.BigEndian.Uint16(b[3:]))
	if f.width == 0 || f.height == 0 {
		return false
	}
	for b = b[6:]; len(b) > 0; b = b[3:] {
		c := component{id: b[0], across: int(b[1] >> 4), down: int(b[1] & 15)}
		if b[2] > 3 {
			return false
		}
		c.quant = f.quant[b[2]] // that of another moment would be another table
		f.components = append(f.components, c)
	}
	first := &f.components[0]
	if first.across < 1 || first.across > 2 || first.down < 1 || first.down > 2 {
		return false
	}
	if len(f.components) == 1 {
		first.across, first.down = 1, 1 // a lone component has nobody to be sampled against
		return first.quant != nil
	}
	a, b2, c := f.components[0], f.components[1], f.components[2]
	isRGB := a.id == 'R' && b2.id == 'G' && c.id == 'B'
	return a.id != b2.id && b2.id != c.id && a.id != c.id && !isRGB && a.quant != nil && b2.quant != nil && c.quant != nil &&
		b2.across == 1 && b2.down == 1 && c.across == 1 && c.down == 1
}

// scan decodes all blocks.
func (f *file) scan(header []byte) bool {
	n := len(f.components)
	if n == 0 || len(header) != 4+2*n || int(header[0]) != n {
		return false
	}
	for i := range f.components {
		c, id, tables := &f.components[i], header[1+2*i], header[2+2*i]
		if id != c.id || tables>>4 > 1 || tables&15 > 1 {
			return false
		}
		c.dc, c.ac = f.huffman[0][tables>>4], f.huffman[1][tables&15]
		if c.dc == nil || c.ac == nil {
			return false
		}
	}
	first := f.components[0]
	across := (f.width + 8*first.across - 1) / (8 * first.across)
	down := (f.height + 8*first.down - 1) / (8 * first.down)
	f.planes(across, down)
	in := bitReader{rest: f.rest}
	for unit := range across * down {
		if f.restart > 0 && unit > 0 && unit%f.restart == 0 {
			if !in.restart(byte(unit/f.restart - 1)) {
				return false
			}
			for i := range f.components {
				f.components[i].previous = 0
			}
		}
		if !f.unit(&in, unit%across, unit/across) {
			return false
		}
	}
	f.rest = in.rest
	return in.ended()
}

// planes makes the image, which has room for whole units.
func (f *file) planes(across, down int) {
	bounds, size := image.Rect(0, 0, f.width, f.height), image.Rect(0, 0, 8*f.components[0].across*across, 8*f.components[0].down*down)
	if len(f.components) == 1 {
		m := image.NewGray(size)
		f.components[0].pix, f.components[0].stride = m.Pix, m.Stride
		f.image = m.SubImage(bounds)
		return
	}
	ratio := [3][3]image.YCbCrSubsampleRatio{
		1: {1: image.YCbCrSubsampleRatio444, 2: image.YCbCrSubsampleRatio440},
		2: {1: image.YCbCrSubsampleRatio422, 2: image.YCbCrSubsampleRatio420},
	}[f.components[0].across][f.components[0].down]
	m := newYCbCr(size, ratio, 8*across, 8*down)
	for i, plane := range [][]byte{m.Y, m.Cb, m.Cr} {
		f.components[i].pix, f.components[i].stride = plane, m.CStride
	}
	f.components[0].stride = m.YStride
	f.image = m.SubImage(bounds)
}

// unit decodes the blocks of a unit, component by component, row by row.
func (f *file) unit(in *bitReader, x, y int) bool {
	for i := range f.components {
		c := &f.components[i]
		for block := range c.across * c.down {
			bx, by := x*c.across+block%c.across, y*c.down+block/c.across
			if !c.block(in, c.pix[8*(by*c.stride+bx):]) {
				return false
			}
		}
	}
	return true
}
