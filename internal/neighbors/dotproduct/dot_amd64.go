package dotproduct

import "github.com/pairstream/pairstream/internal/base/instructions"

// Available instructions; tests switch them off to compare.
var (
	hasVector = instructions.HasAVX2
	hasWide   = instructions.HasAVX512
)

// blockVector computes the products of the first doneA rows of a with the first doneB rows of b: as many as make whole
// blocks of 4 x 2.
func blockVector(dst []float32, a *Matrix, a0, na int, b *Matrix, b0, nb int) (doneA, doneB int) {
	if !hasVector || na < 4 || nb < 2 || a.stride == 0 {
		return 0, 0
	}
	doneA, doneB = na/4*4, nb/2*2
	wide := 0
	if hasWide {
		wide = nb / 4 * 4
	}
	for i := 0; i < doneA; i += 4 {
		row := &a.data[(a0+i)*a.stride]
		if wide > 0 {
			rows4wide(&dst[i*nb], nb, row, &b.data[b0*b.stride], a.stride/lanes, wide/4)
		}
		if wide < doneB {
			rows4(&dst[i*nb+wide], nb, row, &b.data[(b0+wide)*b.stride], a.stride/lanes, (doneB-wide)/2)
		}
	}
	return doneA, doneB
}

// gatherVector computes the products in blocks of 4. If the last block is incomplete, it computes some products again.
func gatherVector(dst, row []float32, m *Matrix, indices []int32) int {
	if !hasVector || len(row) == 0 {
		return 0
	}
	last := len(indices) - 1
	at := func(i int) *float32 { return &m.padded(int(indices[min(i, last)]))[0] }
	for i := 0; i < len(indices); i += 4 {
		var four [4]float32
		gather4(&four[0], &row[0], at(i), at(i+1), at(i+2), at(i+3), len(row)/lanes)
		copy(dst[i:len(indices)], four[:])
	}
	return len(indices)
}

// rows4 multiplies four rows from a on with 2*pairs rows from b on, all of 8*chunks values and without gaps, and writes
// four rows of products that lie dstStride values apart. Chunks and pairs are at least 1. It needs AVX2.
//
//go:noescape
func rows4(dst *float32, dstStride int, a, b *float32, chunks, pairs int)

// rows4wide is rows4 for 4*quads rows from b on. It needs AVX-512F.
//
//go:noescape
func rows4wide(dst *float32, dstStride int, a, b *float32, chunks, quads int)

// gather4 multiplies row with four others and writes four products. Chunks is at least 1. It needs AVX2.
//
//go:noescape
func gather4(dst, row, b0, b1, b2, b3 *float32, chunks int)
