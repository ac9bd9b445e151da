package imaging

import "math"

const (
	boxBits   = 24 // binary places of the weights of a box
	boxPasses = 3  // boxes that make a bell, as in Pillow
	boxReach  = 2  // pixels on each side that the widest box covers
)

// box has the weights of a pixel, of its neighbours and of theirs.
type box [boxReach + 1]uint32

// boxOf returns the box that gives a standard deviation of up to [blurMost] pixels after [boxPasses] passes. Its radius
// is not a whole number: the outermost pixels count partially (Gwosdek et al., SSVM 2011; Pillow's BoxBlur.c).
func boxOf(sigma float64) (b box) {
	variance := float32(sigma) * float32(sigma) / boxPasses
	length := float32(math.Sqrt(float64(12*float64(variance)) + 1))
	whole := float32(math.Floor((float64(length) - 1) / 2))
	part := float32(float32(2*whole+1) * float32(float32(whole*(whole+1))-float32(3*variance)))
	part /= float32(6 * float32(variance-float32((whole+1)*(whole+1))))
	inner := uint32(float32(1<<boxBits) / float32(float32(2*float32(whole+part))+1))
	edge := int(whole + part)
	for i := range edge + 1 {
		b[i] = inner
	}
	b[edge+1] = (1<<boxBits - uint32(2*edge+1)*inner) / 2
	return b
}

// at weighs five values, with the pixel's own in the middle.
func (b *box) at(l2, l1, m, r1, r2 byte) byte {
	sum := b[0]*uint32(m) + b[1]*(uint32(l1)+uint32(r1)) + b[2]*(uint32(l2)+uint32(r2))
	return byte((sum + 1<<(boxBits-1)) >> boxBits)
}

// blur smooths the picture in place. Beyond a border the outermost pixels are repeated.
func (im *Image) blur(sigma float64) {
	b := boxOf(sigma)
	stride := 3 * im.W
	padded := make([]byte, stride+6*boxReach)
	for y := range im.H {
		row := im.Pix[y*stride : (y+1)*stride]
		for range boxPasses {
			copy(padded[3*boxReach:], row)
			for i := range 3 * boxReach {
				padded[i] = row[i%3]
				padded[3*boxReach+stride+i] = row[stride-3+i%3]
			}
			for i := range row {
				p := padded[i : i+6*boxReach+1]
				row[i] = b.at(p[0], p[3], p[6], p[9], p[12])
			}
		}
	}
	from := make([]byte, len(im.Pix))
	for range boxPasses {
		copy(from, im.Pix)
		row := func(y int) []byte {
			y = min(im.H-1, max(0, y))
			return from[y*stride : (y+1)*stride]
		}
		for y := range im.H {
			up2, up, at, down, down2 := row(y-2), row(y-1), row(y), row(y+1), row(y+2)
			out := im.Pix[y*stride : (y+1)*stride]
			for i := range out {
				out[i] = b.at(up2[i], up[i], at[i], down[i], down2[i])
			}
		}
	}
}
