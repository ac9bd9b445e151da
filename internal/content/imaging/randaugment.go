package imaging

import (
	"math"
	"math/rand/v2"
)

// Operation is one of the ten operations of RandAugment as ALBEF, TCL, GRIT-VLP and MAFA use it in pre-training.
type Operation int

// The operations, in the order in which the authors' configuration lists them.
const (
	Identity Operation = iota
	AutoContrast
	Equalize
	Brightness
	Sharpness
	ShearX
	ShearY
	TranslateX
	TranslateY
	Rotate
)

const operations = int(Rotate) + 1

const (
	maxLevel     = 10  // the level at which an operation is strongest
	maxShear     = 0.3 // pixels sideways a pixel
	maxTranslate = 10  // pixels
	maxRotate    = 30  // degrees
	warpFill     = 128 // grey of pixels from outside the picture
	keepChance   = 0.5 // probability of doing a drawn operation
)

// signed reports whether an operation draws a sign for its argument.
func (o Operation) signed() bool { return o >= ShearX }

// RandAugment varies a picture by n operations of a level in 0..10, in place if possible, and returns the result. Each
// is drawn from the ten, and done half of the time (RandAugment(2, 7) in GRIT-VLP 5.1 and MAFA 5.1, "as ALBEF").
func RandAugment(im *Image, n, level int, rng *rand.Rand) *Image {
	drawn := make([]Operation, n)
	for i := range drawn {
		drawn[i] = Operation(rng.IntN(operations))
	}
	return randAugment(im, drawn, level, rng.Float64)
}

// randAugment performs the drawn operations. Their further draws are uniform numbers in the authors' order.
func randAugment(im *Image, drawn []Operation, level int, uniform func() float64) *Image {
	for _, o := range drawn {
		if uniform() > keepChance {
			continue
		}
		negative := false
		if o.signed() {
			u := uniform()
			negative = u > 0.5
			if o == Rotate {
				negative = u < 0.5
			}
		}
		im = im.apply(o, level, negative)
	}
	return im
}

// apply performs one operation of a level, with the sign of its argument.
func (im *Image) apply(o Operation, level int, negative bool) *Image {
	share := float64(level) / maxLevel
	factor := 1.8*share + 0.1
	if negative {
		share = -share
	}
	switch o {
	case AutoContrast:
		im.autoContrast()
	case Equalize:
		im.equalize()
	case Brightness:
		im.brighten(factor)
	case Sharpness:
		return im.sharpen(float32(factor))
	case ShearX:
		return im.warp(inverse{xx: 1, xy: -maxShear * share, yy: 1})
	case ShearY:
		return im.warp(inverse{xx: 1, yx: -maxShear * share, yy: 1})
	case TranslateX:
		return im.warp(inverse{xx: 1, yy: 1, x0: maxTranslate * share})
	case TranslateY:
		return im.warp(inverse{xx: 1, yy: 1, y0: maxTranslate * share})
	case Rotate:
		return im.warp(rotation(im.W, im.H, maxRotate*share))
	default: // Identity
	}
	return im
}

// tune replaces every value by its channel's table.
func (im *Image) tune(tables *[3][256]byte) {
	for p := im.Pix; len(p) >= 3; p = p[3:] {
		p[0], p[1], p[2] = tables[0][p[0]], tables[1][p[1]], tables[2][p[2]]
	}
}

// histograms counts the values of each channel.
func (im *Image) histograms() (counts [3][256]int) {
	for p := im.Pix; len(p) >= 3; p = p[3:] {
		counts[0][p[0]]++
		counts[1][p[1]]++
		counts[2][p[2]]++
	}
	return counts
}

// autoContrast stretches each channel to 0..255, as PIL's ImageOps.autocontrast.
func (im *Image) autoContrast() {
	counts := im.histograms()
	var tables [3][256]byte
	for c := range counts {
		low, high := 0, 255
		for low < 255 && counts[c][low] == 0 {
			low++
		}
		for high > 0 && counts[c][high] == 0 {
			high--
		}
		for v := range tables[c] {
			tables[c][v] = byte(v)
			if high > low {
				scale := 255 / float64(high-low)
				tables[c][v] = byte(min(255, max(0, float64(v)*scale-float64(low)*scale)))
			}
		}
	}
	im.tune(&tables)
}

// equalize flattens each channel's histogram, as PIL's ImageOps.equalize.
func (im *Image) equalize() {
	counts := im.histograms()
	var tables [3][256]byte
	for c := range counts {
		last := 255
		for last > 0 && counts[c][last] == 0 {
			last--
		}
		step := (im.W*im.H - counts[c][last]) / 255
		sum := step / 2
		for v := range tables[c] {
			tables[c][v] = byte(v)
			if step > 0 {
				tables[c][v] = byte(min(255, sum/step))
				sum += counts[c][v]
			}
		}
	}
	im.tune(&tables)
}

// brighten multiplies every value by a factor.
func (im *Image) brighten(factor float64) {
	var table [256]byte
	for v := range table {
		table[v] = byte(min(255, float32(v)*float32(factor)))
	}
	im.tune(&[3][256]byte{table, table, table})
}

// sharpen moves every pixel except those of the border away from the smoothed picture. Results beyond 0..255 wrap
// around, as in the authors' code.
func (im *Image) sharpen(factor float32) *Image {
	out := &Image{W: im.W, H: im.H, Pix: append([]byte(nil), im.Pix...)}
	stride := 3 * im.W
	for y := 1; y < im.H-1; y++ {
		up, row, down := im.Pix[(y-1)*stride:y*stride], im.Pix[y*stride:(y+1)*stride], im.Pix[(y+1)*stride:(y+2)*stride]
		for x := 3; x < stride-3; x++ {
			around := int(up[x-3]) + int(up[x]) + int(up[x+3]) + int(row[x-3]) + int(row[x+3]) + int(down[x-3]) + int(down[x]) + int(down[x+3])
			smooth := float32((2*(around+5*int(row[x])) + 13) / 26) // rounded to nearest
			out.Pix[y*stride+x] = byte(int32(smooth + factor*(float32(row[x])-smooth)))
		}
	}
	return out
}

// inverse maps a pixel of the result to a place in the source: x' = xx x + xy y + x0, y' = yx x + yy y + y0.
type inverse struct{ xx, xy, x0, yx, yy, y0 float64 }

// rotation turns a picture about its middle by degrees counter-clockwise.
func rotation(w, h int, degrees float64) inverse {
	sin, cos := math.Sincos(degrees * math.Pi / 180)
	cx, cy := float64(w)/2, float64(h)/2
	return inverse{
		xx: cos, xy: -sin, x0: cx - cos*cx + sin*cy,
		yx: sin, yy: cos, y0: cy - sin*cx - cos*cy,
	}
}

const (
	placeBits = 32 // binary places of a place in the source
	warpBits  = 10 // binary places of the weights of its four pixels
)

// warp fills a picture from positions of another, interpolated linearly; pixels outside are grey.
func (im *Image) warp(m inverse) *Image {
	out := New(im.W, im.H)
	fixed := func(v float64) int64 { return int64(math.Round(v * (1 << placeBits))) }
	stepX, stepY := fixed(m.xx), fixed(m.yx)
	for y := range im.H {
		px, py := fixed(m.xy*float64(y)+m.x0), fixed(m.yy*float64(y)+m.y0)
		row := out.Pix[3*y*im.W : 3*(y+1)*im.W]
		for ; len(row) >= 3; row = row[3:] {
			im.blend((*[3]byte)(row), px, py)
			px, py = px+stepX, py+stepY
		}
	}
	return out
}

// blend writes the mean of the four pixels about a place, weighted by its fractions.
func (im *Image) blend(dst *[3]byte, px, py int64) {
	const one = 1 << warpBits
	x, y := int(px>>placeBits), int(py>>placeBits)
	fx := int32(px >> (placeBits - warpBits) & (one - 1))
	fy := int32(py >> (placeBits - warpBits) & (one - 1))
	w00, w01, w10, w11 := (one-fx)*(one-fy), fx*(one-fy), (one-fx)*fy, fx*fy
	if x >= 0 && y >= 0 && x+1 < im.W && y+1 < im.H {
		p := (*[6]byte)(im.Pix[3*(y*im.W+x):])
		q := (*[6]byte)(im.Pix[3*((y+1)*im.W+x):])
		for c := range 3 {
			dst[c] = mean(w00*int32(p[c]) + w01*int32(p[c+3]) + w10*int32(q[c]) + w11*int32(q[c+3]))
		}
		return
	}
	for c := range 3 {
		dst[c] = mean(w00*im.orGrey(x, y, c) + w01*im.orGrey(x+1, y, c) + w10*im.orGrey(x, y+1, c) + w11*im.orGrey(x+1, y+1, c))
	}
}

// mean rounds a sum of four weighted values.
func mean(sum int32) byte { return byte((sum + 1<<(2*warpBits-1)) >> (2 * warpBits)) }

// orGrey returns a value of a pixel, or grey outside the picture.
func (im *Image) orGrey(x, y, c int) int32 {
	if x < 0 || y < 0 || x >= im.W || y >= im.H {
		return warpFill
	}
	return int32(im.Pix[3*(y*im.W+x)+c])
}
