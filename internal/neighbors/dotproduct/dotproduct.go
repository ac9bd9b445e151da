// Package dotproduct computes dot products of float32 rows, with the same bits on every machine.
//
// It computes blocks of products of matrices. Guarantees:
//
//  1. One order of summation: product k of a row is rounded to float32 and added to the sum of lane k mod 8; the eight
//     lanes l0..l7 are then added as ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)). Nothing is fused. The vector code for amd64
//     with AVX2 or AVX-512 and the portable code give the same bits, for every block shape, so a product depends on its two rows
//     alone, and a . b has the bits of b . a.
//  2. Products of rows in fixed point ([Fixed]) and of codes ([Codes]) are exact integers. [Fixed.Bound] and
//     [Codes.Bound] bound their distance from those of float32.
//  3. No cgo.
//
// A Matrix and a Fixed may be read by many goroutines at once, and Codes while none changes them. There is no blocking
// for the cache here: callers choose blocks of rows that fit.
package dotproduct

// lanes is the number of partial sums of a product; rows are padded with zeros to a multiple of it.
const lanes = 8

// Matrix holds rows of one width.
type Matrix struct {
	rows, dim, stride int
	data              []float32
}

// NewMatrix returns a matrix of zeros.
func NewMatrix(rows, dim int) *Matrix {
	stride := (dim + lanes - 1) / lanes * lanes
	return &Matrix{rows: rows, dim: dim, stride: stride, data: make([]float32, rows*stride)}
}

// Rows returns the number of rows.
func (m *Matrix) Rows() int { return m.rows }

// Dim returns the number of values in a row.
func (m *Matrix) Dim() int { return m.dim }

// Row returns row i; writing to it changes the matrix.
func (m *Matrix) Row(i int) []float32 {
	return m.data[i*m.stride : i*m.stride+m.dim : i*m.stride+m.dim]
}

// padded returns row i with the zeros after it.
func (m *Matrix) padded(i int) []float32 { return m.data[i*m.stride : (i+1)*m.stride] }

// Block writes a.Row(a0+i) . b.Row(b0+j) to dst[i*nb+j], for i below na and j below nb.
func Block(dst []float32, a *Matrix, a0, na int, b *Matrix, b0, nb int) {
	check(a.stride == b.stride, "rows of different widths")
	check(a0 >= 0 && na >= 0 && a0+na <= a.rows && b0 >= 0 && nb >= 0 && b0+nb <= b.rows, "rows that are not there")
	check(len(dst) >= na*nb, "no room for the products")
	doneA, doneB := blockVector(dst, a, a0, na, b, b0, nb)
	blockPortable(dst, a, a0, 0, na, b, b0, doneB, nb, nb)
	blockPortable(dst, a, a0, doneA, na, b, b0, 0, doneB, nb)
}

// Gather writes row . m.Row(indices[i]) to dst[i]. Row has the width of m's rows.
func Gather(dst, row []float32, m *Matrix, indices []int32) {
	check(len(row) == m.dim && len(dst) >= len(indices), "a row of another width, or no room for the products")
	padded := row
	if m.dim != m.stride {
		padded = make([]float32, m.stride)
		copy(padded, row)
	}
	done := gatherVector(dst, padded, m, indices)
	for i, at := range indices[done:] {
		dst[done+i] = dotPortable(padded, m.padded(int(at)))
	}
}

// blockPortable fills rows i0..i1 and columns j0..j1 of a block whose rows have nb products.
func blockPortable(dst []float32, a *Matrix, a0, i0, i1 int, b *Matrix, b0, j0, j1, nb int) {
	for i := i0; i < i1; i++ {
		row := a.padded(a0 + i)
		for j := j0; j < j1; j++ {
			dst[i*nb+j] = dotPortable(row, b.padded(b0+j))
		}
	}
}

// dotPortable is the definition of a product. The conversions keep the compiler from fusing a product with its sum.
func dotPortable(a, b []float32) float32 {
	var l0, l1, l2, l3, l4, l5, l6, l7 float32
	for ; len(a) >= lanes && len(b) >= lanes; a, b = a[lanes:], b[lanes:] {
		l0 += float32(a[0] * b[0])
		l1 += float32(a[1] * b[1])
		l2 += float32(a[2] * b[2])
		l3 += float32(a[3] * b[3])
		l4 += float32(a[4] * b[4])
		l5 += float32(a[5] * b[5])
		l6 += float32(a[6] * b[6])
		l7 += float32(a[7] * b[7])
	}
	return ((l0 + l4) + (l2 + l6)) + ((l1 + l5) + (l3 + l7))
}

func check(ok bool, what string) {
	if !ok {
		panic("dotproduct: " + what)
	}
}
