package imaging

import (
	"image"
	"image/color"

	"github.com/pairstream/pairstream/internal/content/jpeg"
)

// rowReader writes row y of an image, counted from 0, as RGB.
type rowReader func(y int, dst []byte)

// toRGB converts a decoded image, averaging squares of factor x factor pixels. Pixels that do not fill a whole square
// at the right and lower edge form smaller ones.
func toRGB(m image.Image, matrix *yuvMatrix, factor int) *Image {
	w, h := m.Bounds().Dx(), m.Bounds().Dy()
	if ready, ok := m.(*jpeg.RGB); ok && factor == 1 {
		return &Image{W: w, H: h, Pix: ready.Pix}
	}
	rows := rowsOf(m, matrix)
	if factor == 1 {
		out := New(w, h)
		for y := range h {
			rows(y, out.Pix[3*y*w:3*(y+1)*w])
		}
		return out
	}
	return boxAverage(rows, w, h, factor, factor)
}

// boxAverage averages rectangles of fx x fy pixels of the w x h pixels that rows reads.
func boxAverage(rows rowReader, w, h, fx, fy int) *Image {
	out := New((w+fx-1)/fx, (h+fy-1)/fy)
	row := make([]byte, 3*w)
	sums := make([]uint32, 3*out.W)
	for oy := range out.H {
		clear(sums)
		high := min(fy, h-oy*fy)
		for y := range high {
			rows(oy*fy+y, row)
			addColumns(sums, row, fx)
		}
		dst := out.Pix[3*oy*out.W : 3*(oy+1)*out.W]
		for ox := range out.W {
			n := uint32(high * min(fx, w-ox*fx))
			for c := 3 * ox; c < 3*ox+3; c++ {
				dst[c] = byte((sums[c] + n/2) / n)
			}
		}
	}
	return out
}

// addColumns adds the pixels of a row to sums, fx neighbours to each.
func addColumns(sums []uint32, row []byte, fx int) {
	for len(sums) >= 3 {
		group := row[:min(3*fx, len(row))]
		row = row[len(group):]
		var r, g, b uint32
		for i := 2; i < len(group); i += 3 {
			r += uint32(group[i-2])
			g += uint32(group[i-1])
			b += uint32(group[i])
		}
		sums[0] += r
		sums[1] += g
		sums[2] += b
		sums = sums[3:]
	}
}

// rowsOf picks the conversion for the type of m. The decoders return only the named types; the last case handles any
// type that they may return in the future.
func rowsOf(m image.Image, matrix *yuvMatrix) rowReader {
	switch m := m.(type) {
	case *jpeg.RGB:
		return func(y int, dst []byte) { copy(dst, m.Pix[y*len(dst):]) }
	case *image.YCbCr:
		return func(y int, dst []byte) { matrix.row(m, y, dst) }
	case *image.NYCbCrA:
		return func(y int, dst []byte) {
			matrix.row(&m.YCbCr, y, dst)
			for x := range len(dst) / 3 {
				overWhite(dst[3*x:], m.A[y*m.AStride+x])
			}
		}
	case *image.Gray:
		return func(y int, dst []byte) { repeat(m.Pix[y*m.Stride:], 1, dst) }
	case *image.Gray16:
		return func(y int, dst []byte) { repeat(m.Pix[y*m.Stride:], 2, dst) }
	case *image.Paletted:
		return palettedRows(m)
	case *image.RGBA:
		return func(y int, dst []byte) { premultipliedRow(m.Pix[y*m.Stride:], 1, dst) }
	case *image.RGBA64:
		return func(y int, dst []byte) { premultipliedRow(m.Pix[y*m.Stride:], 2, dst) }
	case *image.NRGBA:
		return func(y int, dst []byte) { straightRow(m.Pix[y*m.Stride:], 1, dst) }
	case *image.NRGBA64:
		return func(y int, dst []byte) { straightRow(m.Pix[y*m.Stride:], 2, dst) }
	case *image.CMYK:
		return func(y int, dst []byte) { cmykRow(m.Pix[y*m.Stride:], dst) }
	default:
		return func(y int, dst []byte) { anyRow(m, y, dst) }
	}
}

// yuvMatrix turns luma and chroma into RGB, in 16.16 fixed point.
type yuvMatrix struct {
	luma, offset   int32 // of luma: factor and summand
	rv, gu, gv, bu int32
}

// A JPEG's samples use the whole byte (JFIF); a lossy WebP's are those of television, luma 16..235 and chroma 16..240
// (BT.601), which golang.org/x/image/webp passes on as if they were a JPEG's.
var (
	jpegMatrix = yuvMatrix{luma: 0x10101, rv: 91881, gu: -22554, gv: -46802, bu: 116130}
	webpMatrix = yuvMatrix{luma: 76309, offset: 1<<15 - 16*76309, rv: 104597, gu: -25675, gv: -53279, bu: 132201}
)

// row converts one row; it computes the chroma part once for the pixels that share it.
func (k *yuvMatrix) row(m *image.YCbCr, y int, dst []byte) {
	w := len(dst) / 3
	luma := m.Y[y*m.YStride : y*m.YStride+w]
	co := m.COffset(m.Rect.Min.X, m.Rect.Min.Y+y)
	cb, cr := m.Cb[co:], m.Cr[co:]
	span := 1 // luma samples for one chroma sample
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio444, image.YCbCrSubsampleRatio440:
	case image.YCbCrSubsampleRatio422, image.YCbCrSubsampleRatio420:
		span = 2
	case image.YCbCrSubsampleRatio411, image.YCbCrSubsampleRatio410:
		span = 4
	}
	mat := *k
	for c := 0; len(luma) > 0; c++ {
		u, v := int32(cb[c])-128, int32(cr[c])-128
		r, g, b := mat.offset+mat.rv*v, mat.offset+mat.gu*u+mat.gv*v, mat.offset+mat.bu*u
		n := min(span, len(luma))
		out := dst[:3*n]
		for i, l := range luma[:n] {
			yy := int32(l) * mat.luma
			px := out[3*i : 3*i+3 : 3*i+3]
			px[0] = clampFixed(yy + r)
			px[1] = clampFixed(yy + g)
			px[2] = clampFixed(yy + b)
		}
		luma, dst = luma[n:], dst[3*n:]
	}
}

// clampFixed rounds a 16.16 number down to a byte, clamping it to 0..255.
func clampFixed(v int32) byte {
	if uint32(v)&0xff000000 == 0 {
		return byte(v >> 16)
	}
	return byte(^(v >> 31))
}

// repeat writes each grey sample three times; the first of the bytes of a sample counts.
func repeat(pix []byte, bytesPerSample int, dst []byte) {
	for x := range len(dst) / 3 {
		v := pix[x*bytesPerSample]
		dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
	}
}

// straightRow lays samples with separate alpha over white.
func straightRow(pix []byte, bytesPerSample int, dst []byte) {
	for x := range len(dst) / 3 {
		p := pix[4*x*bytesPerSample:]
		dst[3*x], dst[3*x+1], dst[3*x+2] = p[0], p[bytesPerSample], p[2*bytesPerSample]
		overWhite(dst[3*x:], p[3*bytesPerSample])
	}
}

// premultipliedRow lays samples already multiplied by their alpha over white.
func premultipliedRow(pix []byte, bytesPerSample int, dst []byte) {
	for x := range len(dst) / 3 {
		p := pix[4*x*bytesPerSample:]
		white := 255 - int(p[3*bytesPerSample])
		for c := range 3 {
			dst[3*x+c] = byte(min(255, int(p[c*bytesPerSample])+white))
		}
	}
}

func overWhite(rgb []byte, alpha byte) {
	if alpha == 255 {
		return
	}
	a := uint32(alpha)
	for c := range 3 {
		rgb[c] = byte((uint32(rgb[c])*a + 255*(255-a) + 127) / 255)
	}
}

func palettedRows(m *image.Paletted) rowReader {
	var lut [256][3]byte
	for i, c := range m.Palette {
		n := color.NRGBAModel.Convert(c).(color.NRGBA)
		lut[i] = [3]byte{n.R, n.G, n.B}
		overWhite(lut[i][:], n.A)
	}
	return func(y int, dst []byte) {
		for x := range len(dst) / 3 {
			copy(dst[3*x:3*x+3], lut[m.Pix[y*m.Stride+x]][:])
		}
	}
}

func cmykRow(pix, dst []byte) {
	for x := range len(dst) / 3 {
		p := pix[4*x:]
		white := 255 - uint32(p[3])
		for c := range 3 {
			dst[3*x+c] = byte(((255-uint32(p[c]))*white + 127) / 255)
		}
	}
}

func anyRow(m image.Image, y int, dst []byte) {
	origin := m.Bounds().Min
	for x := range len(dst) / 3 {
		n := color.NRGBAModel.Convert(m.At(origin.X+x, origin.Y+y)).(color.NRGBA)
		dst[3*x], dst[3*x+1], dst[3*x+2] = n.R, n.G, n.B
		overWhite(dst[3*x:], n.A)
	}
}
