package jpeg

// The inverse cosine transform in the integer arithmetic of image/jpeg: eight transforms of rows, then eight of columns.
// Sums and products wrap around where a broken file makes them too large, in the vector code too.

// rotation turns two values; the constants are the cosine, the sine less the cosine, and the sine plus the cosine of an
// angle, in fixed point.
type rotation struct{ c, less, plus int32 }

func newRotation(cosine, sine int32) rotation { return rotation{cosine, sine - cosine, sine + cosine} }

func (r rotation) turn(a, b int32) (int32, int32) {
	both := r.c * (a + b)
	return both + r.less*b, both - r.plus*a
}

// Constants of the transform: cosines and sines of multiples of pi/16, in fixed point of 18, 14 or 12 bits.
var (
	rowEven    = newRotation(70936, -171254) // cos and sin of 6 pi/16, over the root of 2, 18 bits
	columnEven = newRotation(1108, -2676)    // the same in 12 bits
	third      = newRotation(3406, -2276)    // cos and sin of 3 pi/16, 12 bits
	first      = newRotation(4017, -799)     // cos and sin of pi/16, 12 bits
	rowRoot    = int32(181)                  // 1 over the root of 2, 8 bits
	columnRoot = int32(11585)                // the same in 14 bits
)

func butterfly(a, b int32) (int32, int32) { return a + b, a - b }

// transform writes the pixels of a block, whose rows and columns are exchanged, to the plane at dst.
func transform(dst []byte, stride int, b *[64]int32) {
	if transformVector(dst, stride, b) {
		return
	}
	for i := range 8 {
		rowOf(b, i)
	}
	for i := range 8 {
		columnOf(b, i)
	}
	for y := range 8 {
		row := dst[y*stride : y*stride+8]
		for x := range row {
			row[x] = level(b[8*x+y])
		}
	}
}

// level is a pixel of a value around 0.
func level(v int32) byte { return byte(min(127, max(-128, v)) + 128) }

// flat writes a block that is the same everywhere.
func flat(dst []byte, stride int, v int32) {
	pixel := uint64(level((v<<17+1<<19)>>2>>18)) * 0x0101010101010101
	for y := range 8 {
		row := dst[y*stride : y*stride+8 : y*stride+8]
		for x := range row {
			row[x] = byte(pixel)
		}
	}
}

// rowOf transforms row i.
func rowOf(b *[64]int32, i int) {
	x0, x1 := butterfly(b[i]<<17, b[4*8+i]<<17)
	x2, x3 := rowEven.turn(b[2*8+i], b[6*8+i])
	x1, x2 = butterfly(x1, x2)
	x0, x3 = butterfly(x0, x3)
	x7, x4 := butterfly(b[1*8+i]<<7, b[7*8+i]<<7)
	x7, x5 := butterfly(x7, b[3*8+i]*rowRoot)
	x4, x6 := butterfly(x4, b[5*8+i]*rowRoot)
	x4, x7 = third.turn(x4>>2, x7>>2)
	x5, x6 = first.turn(x5>>2, x6>>2)
	b[i], b[7*8+i] = butterfly(x0, x7)
	b[1*8+i], b[6*8+i] = butterfly(x1, x6)
	b[2*8+i], b[5*8+i] = butterfly(x2, x5)
	b[3*8+i], b[4*8+i] = butterfly(x3, x4)
}

// columnOf transforms column i.
func columnOf(b *[64]int32, i int) {
	x := b[8*i : 8*i+8 : 8*i+8]
	x0, x1 := butterfly(x[0]+1<<19, x[4])
	x2, x3 := columnEven.turn(x[2]>>13, x[6]>>13)
	x1, x2 = butterfly(x1>>2, x2)
	x0, x3 = butterfly(x0>>2, x3)
	x7, x4 := butterfly(x[1], x[7])
	x7, x5 := butterfly(x7, (x[3]>>13)*columnRoot)
	x4, x6 := butterfly(x4, (x[5]>>13)*columnRoot)
	x4, x7 = third.turn(x4>>14, x7>>14)
	x5, x6 = first.turn(x5>>14, x6>>14)
	for k, pair := range [4][2]int32{{x0, x7}, {x1, x6}, {x2, x5}, {x3, x4}} {
		sum, difference := butterfly(pair[0], pair[1])
		x[k], x[7-k] = sum>>18, difference>>18
	}
}
