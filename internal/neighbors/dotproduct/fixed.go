package dotproduct

import (
	"math"
	"slices"
)

// The block of a fixed-point product: rows by columns.
const (
	BlockRows    = 6
	BlockColumns = 64
	fixedLanes   = 32 // rows in fixed point are padded to a multiple of this
	fixedLimit   = math.MaxInt16
)

// Fixed holds the rows of a Matrix in fixed point: integers of 16 bits, all of one scale. Their products are exact, so
// they are the same on every machine. They are twice as fast as those of float32, and a bound gives their distance from
// these.
type Fixed struct {
	rounding

	rows, dim, width int
	data             []int16 // rows of width, and zero rows up to a multiple of BlockRows
}

// rounding describes the integers that represent a matrix.
type rounding struct {
	scale          float64
	norm, residual float64 // bounds of the length of a row, and of a row's rounding error
}

// NewFixed returns the rows of m, whose values are finite, in fixed point.
func NewFixed(m *Matrix) *Fixed {
	width := (m.dim + fixedLanes - 1) / fixedLanes * fixedLanes
	f := &Fixed{rows: m.rows, dim: m.dim, width: width, data: make([]int16, (m.rows+BlockRows-1)/BlockRows*BlockRows*width)}
	f.scale, f.norm = 1, m.norm(m.squares())
	if f.norm > 0 {
		f.scale = fixedLimit / f.norm
	}
	worst := 0.0
	for i := range m.rows {
		worst = max(worst, f.set(i, m.Row(i)))
	}
	f.residual = math.Sqrt(worst)
	return f
}

// squares returns the squares of the lengths of rows, next to their rounding.
func (m *Matrix) squares() []float32 {
	all := make([]float32, m.rows)
	for i := range all {
		all[i] = dotPortable(m.padded(i), m.padded(i))
	}
	return all
}

// norm returns a bound of the length of a row, from the squares of all.
func (m *Matrix) norm(squares []float32) float64 {
	if len(squares) == 0 {
		return 0
	}
	return math.Sqrt(float64(slices.Max(squares))) * (1 + float64(m.dim+8)*epsilon)
}

const (
	epsilon   = 1.0 / (1 << 24) // the relative error of a float32 operation
	toInteger = 3 << 22         // a float32 of this size has no fractional bits
)

// set rounds a row, and returns the square of the rounding error.
func (f *Fixed) set(i int, row []float32) float64 {
	to := f.data[i*f.width:][:len(row)]
	scale, back, sum := float32(f.scale), 1/f.scale, 0.0
	for k, x := range row {
		q := int16(math.Float32bits(x*scale + toInteger)) // the low bits
		to[k] = q
		e := float64(x) - float64(q)*back
		sum += e * e
	}
	return sum
}

// Rows returns the number of rows.
func (f *Fixed) Rows() int { return f.rows }

// Dim returns the length of a row.
func (f *Fixed) Dim() int { return f.dim }

// Bound returns a bound on the difference between a fixed-point product of rows of f and g, and some constant times the
// product of the float32 rows as Block and Gather compute it.
func (f *Fixed) Bound(g *Fixed) int64 { return f.bound(g.rounding, f.dim) }

func (r rounding) bound(o rounding, dim int) int64 {
	// a.b - qa.qb = ea.b + qa.eb, where e is a rounding error and |qa| <= |a| + |ea|.
	e := r.residual*o.norm + (r.norm+r.residual)*o.residual
	e += float64(dim/lanes+8)*epsilon*r.norm*o.norm + float64(dim+8)*0x1p-126 // errors of float32 sums, and of subnormals
	e *= r.scale * o.scale * (1 + 1e-6)
	if !(e < 1<<30) {
		return 1 << 31 // more than any difference of two products
	}
	return int64(math.Ceil(e)) + 1
}

// Panels holds the rows of a Fixed as columns of products: panel after panel of BlockColumns, zero columns at the end.
type Panels struct {
	width int
	data  []int16
}

// NewPanels packs the rows of f.
func NewPanels(f *Fixed) *Panels {
	panels := (f.rows + BlockColumns - 1) / BlockColumns
	p := &Panels{width: f.width, data: make([]int16, panels*BlockColumns*f.width)}
	for i := range f.rows {
		at := p.data[i/BlockColumns*BlockColumns*f.width+i%BlockColumns*2:]
		for k, row := 0, f.data[i*f.width:][:f.width]; k < len(row); k += 2 {
			at[k*BlockColumns], at[k*BlockColumns+1] = row[k], row[k+1]
		}
	}
	return p
}

// Products are the products of a block that reach the threshold of their row or of their column.
type Products struct {
	Values [BlockRows][BlockColumns]int32 // of the rows in which some product reaches a threshold
	Reach  [BlockRows]uint64              // by row, a bit a column
}

// Multiply computes the products of BlockRows rows of f from i on with the columns of a panel, and marks those that are
// at least the row's or the column's threshold.
func (p *Products) Multiply(f *Fixed, i int, columns *Panels, panel int, rowLeast *[BlockRows]int32, columnLeast *[BlockColumns]int32) {
	rows := f.data[i*f.width : (i+BlockRows)*f.width]
	check(f.width == columns.width, "rows of different widths")
	packed := columns.data[panel*BlockColumns*f.width:][:BlockColumns*f.width]
	if len(rows) > 0 && multiplyVector(p, rows, packed, f.width/2, rowLeast, columnLeast) {
		return
	}
	p.multiplyPortable(rows, packed, f.width, rowLeast, columnLeast)
}

func (p *Products) multiplyPortable(rows, packed []int16, width int, rowLeast *[BlockRows]int32, columnLeast *[BlockColumns]int32) {
	for i := range p.Values {
		row := rows[i*width : (i+1)*width]
		values := &p.Values[i]
		clear(values[:])
		for k := 0; k < width; k += 2 {
			a, b, at := int32(row[k]), int32(row[k+1]), packed[k*BlockColumns:][:2*BlockColumns]
			for j := range values {
				values[j] += a*int32(at[2*j]) + b*int32(at[2*j+1])
			}
		}
		p.Reach[i] = 0
		for j, v := range values {
			if v >= rowLeast[i] || v >= columnLeast[j] {
				p.Reach[i] |= 1 << j
			}
		}
	}
}

// GatherFixed writes the product of row i of f with row indices[k] of g to dst[k].
func GatherFixed(dst []int32, f *Fixed, i int, g *Fixed, indices []int32) {
	check(f.width == g.width && len(dst) >= len(indices), "rows of different widths, or no room for the products")
	row := f.data[i*f.width : (i+1)*f.width]
	done := gatherFixedVector(dst, row, g, indices)
	for k, at := range indices[done:] {
		sum := int32(0)
		for j, x := range g.data[int(at)*g.width:][:len(row)] {
			sum += int32(row[j]) * int32(x)
		}
		dst[done+k] = sum
	}
}
