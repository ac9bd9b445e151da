package dotproduct

// multiplyVector reports whether it has computed the products.
func multiplyVector(p *Products, rows, packed []int16, pairs int, rowLeast *[BlockRows]int32, columnLeast *[BlockColumns]int32) bool {
	switch {
	case hasVNNI && hasWide:
		multiplyWide(p, &rows[0], &packed[0], pairs, rowLeast, columnLeast)
	case hasVector:
		multiply(p, &rows[0], &packed[0], pairs, rowLeast, columnLeast)
	default:
		return false
	}
	return true
}

// gatherFixedVector computes the first products, as many as make whole blocks of 4.
func gatherFixedVector(dst []int32, row []int16, g *Fixed, indices []int32) int {
	if !hasVector || len(row) == 0 {
		return 0
	}
	done := len(indices) / 4 * 4
	for k := 0; k < done; k += 4 {
		at := indices[k : k+4]
		gatherFixed4(&dst[k], &row[0], g.row(at[0]), g.row(at[1]), g.row(at[2]), g.row(at[3]), len(row)/fixedLanes)
	}
	return done
}

func (f *Fixed) row(i int32) *int16 { return &f.data[int(i)*f.width] }

// multiplyWide multiplies six rows of 2*pairs values with a panel, and compares. Pairs is at least 1. It needs AVX-512
// VNNI.
//
//go:noescape
func multiplyWide(p *Products, rows, packed *int16, pairs int, rowLeast *[BlockRows]int32, columnLeast *[BlockColumns]int32)

// multiply is multiplyWide for AVX2.
//
//go:noescape
func multiply(p *Products, rows, packed *int16, pairs int, rowLeast *[BlockRows]int32, columnLeast *[BlockColumns]int32)

// gatherFixed4 multiplies row with four others and writes four products. Chunks is at least 1. It needs AVX2.
//
//go:noescape
func gatherFixed4(dst *int32, row, b0, b1, b2, b3 *int16, chunks int)
