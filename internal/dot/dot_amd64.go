package dot

import "golang.org/x/sys/cpu"

// vector says whether the processor runs the AVX2 code; tests switch it off to compare.
var vector = cpu.X86.HasAVX2

// blockVector computes the products of the first doneA rows of a with the first doneB rows of b: as many as make whole
// blocks of 4 x 2.
func blockVector(dst []float32, a *Matrix, a0, na int, b *Matrix, b0, nb int) (doneA, doneB int) {
	if !vector || na < 4 || nb < 2 || a.stride == 0 {
		return 0, 0
	}
	doneA, doneB = na/4*4, nb/2*2
	for i := 0; i < doneA; i += 4 {
		rows4(&dst[i*nb], nb, &a.data[(a0+i)*a.stride], &b.data[b0*b.stride], a.stride/lanes, doneB/2)
	}
	return doneA, doneB
}

// gatherVector computes the first products, as many as make whole blocks of 4.
func gatherVector(dst, row []float32, m *Matrix, indices []int32) int {
	if !vector || len(row) == 0 {
		return 0
	}
	done := len(indices) / 4 * 4
	for i := 0; i < done; i += 4 {
		gather4(&dst[i], &row[0],
			&m.padded(int(indices[i]))[0], &m.padded(int(indices[i+1]))[0],
			&m.padded(int(indices[i+2]))[0], &m.padded(int(indices[i+3]))[0], len(row)/lanes)
	}
	return done
}

// rows4 multiplies four rows from a on with 2*pairs rows from b on, all of 8*chunks values and without gaps, and writes
// four rows of products that lie dstStride values apart. Chunks and pairs are at least 1.
//
//go:noescape
func rows4(dst *float32, dstStride int, a, b *float32, chunks, pairs int)

// gather4 multiplies row with four others and writes four products. Chunks is at least 1.
//
//go:noescape
func gather4(dst, row, b0, b1, b2, b3 *float32, chunks int)
