package dotproduct

import (
	"encoding/binary"
	"math"
	"slices"
)

// CodeRows is the number of rows of Codes that are compared at a time.
const CodeRows = 64

// FastCodes reports whether this processor has instructions to compare codes, at about the speed of its memory.
var FastCodes = hasCodes

// Codes holds the rows of a Matrix as integers of 8 bits, all of one scale. One pass over memory compares a row with
// all remaining rows, and rows can be removed. Products of codes are exact. A bound gives their distance from the
// products of the rows.
type Codes struct {
	rounding

	dim    int
	median float64  // length of a row
	quads  int      // groups of four codes in a row, a multiple of four
	bias   int32    // offset of an anchor's codes in a product
	left   int      // positions in use
	panels []uint32 // CodeRows positions at a time: the first four codes of each, then the next four of each
	minus  []int32  // of each position: -bias times the sum of its codes, and the row's shift
	rows   []int32  // row of each position
	places []int32  // position of each row
	shifts []int32  // of each row; included in minus
	plain  []uint8  // row after row, each code plus 128
}

const (
	never    = -1 << 30 // initial sum of an empty position: no product of rows of up to mostDim values comes near it
	mostCode = math.MaxInt8
	mostDim  = 8192
)

// NewCodes returns the codes of the rows of m, whose values must be finite.
func NewCodes(m *Matrix) *Codes {
	quads := (m.dim + 15) / 16 * 4
	places := (m.rows + CodeRows - 1) / CodeRows * CodeRows
	c := &Codes{
		bias: codesBias(), dim: m.dim, quads: quads, left: m.rows, panels: make([]uint32, places*quads), minus: make([]int32, places),
		rows: make([]int32, places), places: make([]int32, m.rows), shifts: make([]int32, m.rows), plain: make([]uint8, m.rows*4*quads),
	}
	squares := m.squares()
	c.norm = m.norm(squares)
	if len(squares) > 0 {
		slices.Sort(squares)
		c.median = math.Sqrt(float64(squares[len(squares)/2]))
	}
	largest := uint32(0) // the bits of nonnegative floats are ordered like the numbers
	for _, x := range m.data {
		largest = max(largest, math.Float32bits(x)&math.MaxInt32)
	}
	c.scale = 1
	if largest > 0 {
		c.scale = mostCode / float64(math.Float32frombits(largest))
	}
	for i := range c.minus {
		c.minus[i] = never
	}
	worst := 0.0
	for i := range m.rows {
		c.rows[i], c.places[i] = int32(i), int32(i)
		worst = max(worst, c.set(i, m.Row(i)))
	}
	c.residual = math.Sqrt(worst)
	return c
}

// set rounds a row, and returns the square of the rounding error.
func (c *Codes) set(i int, row []float32) float64 {
	plain := c.plain[i*4*c.quads:][:4*c.quads]
	to := plain[:len(row)]
	scale, back, sum, total := float32(c.scale), 1/c.scale, 0.0, int32(0)
	for k, x := range row {
		code := int8(math.Float32bits(x*scale + toInteger)) // the low bits
		to[k] = uint8(code) ^ 128
		total += int32(code)
		e := float64(x) - float64(code)*back
		sum += e * e
	}
	for k := len(row); k < len(plain); k++ {
		plain[k] = 128
	}
	c.minus[i] = -c.bias * total
	panel := c.panels[c.at(i):]
	for q := range c.quads {
		panel[q*CodeRows] = binary.LittleEndian.Uint32(plain[4*q:]) ^ 0x80808080
	}
	return sum
}

// at returns the index of the first four codes of a position.
func (c *Codes) at(place int) int { return place/CodeRows*CodeRows*c.quads + place%CodeRows }

// Bound returns a bound on the difference between a product of rows of c and d, and some constant times the product of
// the float32 rows as Block and Gather compute it. It also reports whether the bound is at most 1/32 of the product of
// two parallel rows of median length. For rows of more than 8,192 values it reports false.
func (c *Codes) Bound(d *Codes) (bound int64, narrow bool) {
	bound = c.bound(d.rounding, c.dim)
	return bound, c.dim <= mostDim && float64(bound) <= c.median*d.median*c.scale*d.scale/32
}

// Unit returns the factor from a product of float32 rows to one of codes of c and d.
func (c *Codes) Unit(d *Codes) float64 { return c.scale * d.scale }

// Shift sets the summand of every product with a row that has not been removed.
func (c *Codes) Shift(row, by int32) {
	c.minus[c.places[row]] += by - c.shifts[row]
	c.shifts[row] = by
}

// Remove removes a row. It may still be an anchor.
func (c *Codes) Remove(row int32) {
	place, last := int(c.places[row]), c.left-1
	to, from := c.panels[c.at(place):], c.panels[c.at(last):]
	for q := 0; q < c.quads*CodeRows; q += CodeRows {
		to[q] = from[q]
	}
	c.minus[place], c.minus[last] = c.minus[last], never
	moved := c.rows[last]
	c.rows[place], c.places[moved] = moved, int32(place)
	c.left = last
}

// CodeProducts are the products of an anchor with the rows of a panel.
type CodeProducts struct {
	Values [CodeRows]int32
	Reach  uint64  // a bit for each row that reaches the bound; 0: no row of any panel does
	Next   int     // number of the panel after it
	Rows   []int32 // rows of the panel
}

// Look finds the first panel, from one on, where the product of an anchor with a remaining row is at least least.
func (c *Codes) Look(p *CodeProducts, anchors *Codes, anchor int32, panel int, least int32) {
	check(c.quads == anchors.quads, "codes of rows of different widths")
	p.Reach, p.Next = 0, (c.left+CodeRows-1)/CodeRows
	count := p.Next - panel
	if count <= 0 {
		return
	}
	row := anchors.plain[int(anchor)*4*c.quads:][:4*c.quads]
	least = max(least, never/2)
	passed := c.look(p, row, panel, count, least)
	p.Next = panel + passed + 1
	if p.Reach != 0 {
		p.Rows = c.rows[(p.Next-1)*CodeRows:][:CodeRows]
	}
}

// look returns the number of panels it has passed. It sets p.Values and p.Reach to those of the next.
func (c *Codes) look(p *CodeProducts, anchor []uint8, panel, count int, least int32) int {
	panels, minus := c.panels[panel*CodeRows*c.quads:], c.minus[panel*CodeRows:]
	if len(anchor) > 0 && hasCodes {
		return c.lookVector(p, &panels[0], &minus[0], &anchor[0], count, least)
	}
	above := 128 - c.bias
	for k := range count {
		copy(p.Values[:], minus[k*CodeRows:])
		for q := range c.quads {
			a := anchor[4*q : 4*q+4]
			for j, b := range panels[(k*c.quads+q)*CodeRows:][:CodeRows] {
				p.Values[j] += (int32(a[0])-above)*int32(int8(b)) + (int32(a[1])-above)*int32(int8(b>>8)) +
					(int32(a[2])-above)*int32(int8(b>>16)) + (int32(a[3])-above)*int32(int8(b>>24))
			}
		}
		for j, v := range p.Values {
			if v >= least {
				p.Reach |= 1 << j
			}
		}
		if p.Reach != 0 {
			return k
		}
	}
	return count
}
