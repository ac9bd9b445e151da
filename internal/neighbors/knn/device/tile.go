package device

import (
	"math"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// maxFold is the number of products that share a maximum. Finding the maxima reads every product once. After that only
// one product in maxFold is examined, and the products of groups with a large maximum.
const maxFold = 32

// fold returns the number of products in a group, so that there are several times more groups than best products.
func fold(products int64, best int) int64 {
	f := int64(maxFold)
	for f > 1 && products/f < 4*int64(best) {
		f /= 2
	}
	return f
}

// tile holds the products of a block of rows and a block of columns (rows of another matrix).
type tile struct {
	rows, columns block
	// products is -inf outside the blocks, where it fills up the last groups.
	products         *torch.Tensor
	foldRow, foldCol int64 // sizes of groups along a row, and along a column
}

// side is one view of a tile. Its lines are rows or columns, and each is divided into groups of products at a constant
// distance.
type side struct {
	maxima                *torch.Tensor // [lines, groups], float32
	lines, groups, fold   int64
	lineStep, placeStep   int64 // in the tile's memory
	flat                  *torch.Tensor
	firstLine, firstPlace int64
	limit                 int64
}

// multiply computes a tile. best is the number of products per row that the caller wants; foldCol is 0 without a search
// by columns.
func (a arithmetic) multiply(s *torch.Scope, x, y *matrix, rows, columns block, best int, foldCol int64) *tile {
	t := &tile{rows: rows, columns: columns, foldRow: fold(columns.n, best), foldCol: max(foldCol, 1)}
	t.products = product(s, x.block(s, rows, a.dtype), y.block(s, columns, a.dtype))
	if a.round {
		t.products = s.To(s.To(t.products, torch.Float16), torch.Float32)
	}
	t.pad(s, 1, t.foldRow)
	t.pad(s, 0, t.foldCol)
	return t
}

// product returns x times y transposed, in a precision that does not depend on the worker's precision for networks.
func product(s *torch.Scope, x, y *torch.Tensor) (out *torch.Tensor) {
	s.InFloat32(func() { out = s.Linear(x, y, nil) })
	return out
}

func (t *tile) pad(s *torch.Scope, dim int, fold int64) {
	shape := t.products.Shape()
	if over := shape[dim] % fold; over != 0 {
		shape[dim] = fold - over
		t.products = s.Cat(dim, t.products, s.Full(math.Inf(-1), t.products.DType(), shape...))
	}
}

func (t *tile) height() int64 { return t.products.Size(0) }
func (t *tile) width() int64  { return t.products.Size(1) }

// byRow returns the side along the rows: a group is every width/fold-th product of a row.
func (t *tile) byRow(s *torch.Scope, limit int64) *side {
	width := t.width()
	groups := width / t.foldRow
	maxima := s.Max(s.Reshape(t.products, t.height(), t.foldRow, groups), 1)
	return &side{
		maxima: s.To(s.Narrow(maxima, 0, 0, t.rows.n), torch.Float32),
		lines:  t.rows.n, groups: groups, fold: t.foldRow, lineStep: width, placeStep: 1,
		flat: s.Reshape(t.products, -1), firstLine: t.rows.from, firstPlace: t.columns.from, limit: limit,
	}
}

// byColumn returns the side along the columns.
func (t *tile) byColumn(s *torch.Scope, limit int64) *side {
	width := t.width()
	groups := t.height() / t.foldCol
	maxima := s.Max(s.Reshape(t.products, t.foldCol, groups, width), 0)
	return &side{
		maxima: s.Transpose(s.To(s.Narrow(maxima, 1, 0, t.columns.n), torch.Float32), 0, 1),
		lines:  t.columns.n, groups: groups, fold: t.foldCol, lineStep: 1, placeStep: width,
		flat: s.Reshape(t.products, -1), firstLine: t.columns.from, firstPlace: t.rows.from, limit: limit,
	}
}

// number returns a constant for computing positions. libtorch would convert positions to floats if the constant were a
// Go number.
func number(s *torch.Scope, n int64) *torch.Tensor { return s.Full(float64(n), torch.Int64) }

// hits are products: line and position of each, counted from the start of the matrices, and values in float32.
type hits struct{ lines, places, values *torch.Tensor }

// each finds the products that are not below their line's floor, and passes them on in portions.
func (v *side) each(s *torch.Scope, floors *torch.Tensor, take func(*torch.Scope, hits) error) error {
	// The padding of the groups is -inf, and is excluded by any floor.
	floors = s.Unsqueeze(s.Clamp(floors, -math.MaxFloat32, math.Inf(1)), 1)
	return v.within(s, floors, block{0, v.lines}, take)
}

// within is each for some of the lines. It halves them while there are more hits than may be gathered at once.
func (v *side) within(s *torch.Scope, floors *torch.Tensor, lines block, take func(*torch.Scope, hits) error) error {
	return s.Nest(func(s *torch.Scope) error {
		some := s.Narrow(floors, 0, lines.from, lines.n)
		found := s.NonZero(s.Ge(s.Narrow(v.maxima, 0, lines.from, lines.n), some))
		switch n := found.Size(0) * v.fold; {
		case n == 0:
			return nil
		case n > v.limit && lines.n > 1:
			half := lines.n / 2
			if err := v.within(s, floors, block{lines.from, half}, take); err != nil {
				return err
			}
			return v.within(s, floors, block{lines.from + half, lines.n - half}, take)
		}
		line, group := s.Select(found, 1, 0), s.Select(found, 1, 1)
		starts := s.Add(s.Mul(s.Add(line, number(s, lines.from)), number(s, v.lineStep)), s.Mul(group, number(s, v.placeStep)))
		steps := s.Mul(s.Arange(v.fold), number(s, v.groups*v.placeStep))
		places := s.Reshape(s.Add(s.Unsqueeze(starts, 1), steps), -1)
		values := s.Reshape(s.To(s.IndexSelect(v.flat, 0, places), torch.Float32), -1, v.fold)
		kept := s.NonZero(s.Ge(values, s.IndexSelect(some, 0, line)))
		of, member := s.Select(kept, 1, 0), s.Select(kept, 1, 1)
		place := s.Add(s.IndexSelect(group, 0, of), s.Mul(member, number(s, v.groups)))
		return take(s, hits{
			lines:  s.Add(s.IndexSelect(line, 0, of), number(s, v.firstLine+lines.from)),
			places: s.Add(place, number(s, v.firstPlace)),
			values: s.IndexSelect(s.Reshape(values, -1), 0, s.Add(s.Mul(of, number(s, v.fold)), member)),
		})
	})
}
