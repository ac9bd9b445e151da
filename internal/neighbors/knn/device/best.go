package device

import (
	"context"
	"math"

	"github.com/pairstream/pairstream/internal/model/torch"
)

// hitList is a list of hits that stay on the device from tile to tile.
type hitList struct {
	parts []hits
	n     int64
}

func (k *hitList) add(s *torch.Scope, h hits) {
	k.parts = append(k.parts, hits{s.Keep(h.lines), s.Keep(h.places), s.Keep(h.values)})
	k.n += h.lines.Size(0)
}

func (k *hitList) free() {
	for _, h := range k.parts {
		h.lines.Free()
		h.places.Free()
		h.values.Free()
	}
	*k = hitList{}
}

// take empties k into one set of hits.
func (k *hitList) take(s *torch.Scope) hits {
	var lines, places, values []*torch.Tensor
	for _, h := range k.parts {
		lines, places, values = append(lines, s.Adopt(h.lines)), append(places, s.Adopt(h.places)), append(values, s.Adopt(h.values))
	}
	*k = hitList{}
	return hits{s.Cat(0, lines...), s.Cat(0, places...), s.Cat(0, values...)}
}

// only returns the hits that index (Int64) names.
func (h hits) only(s *torch.Scope, index *torch.Tensor) hits {
	return hits{s.IndexSelect(h.lines, 0, index), s.IndexSelect(h.places, 0, index), s.IndexSelect(h.values, 0, index)}
}

// pull copies hits from the device: 20 bytes each.
func (h hits) pull() found {
	return found{lines: h.lines.Int64s(), places: h.places.Int64s(), values: h.values.Float32s()}
}

// search finds the best k products of every row of x with the rows of y.
type search struct {
	e       *Engine
	x, y    *matrix
	a       arithmetic
	k       int
	workers int
	columns []int32 // of the result: rows x k
	owners  *owners // of members that are no neighbours of one another; nil: x and y are of different kinds
	// also, if not nil, processes each tile further, which then has groups of this size by columns.
	also    func(s *torch.Scope, t *tile, submit func(job) error) error
	foldCol int64
}

// run processes the rows block by block. The processor scores the hits of a block while the device works on the next.
func (q *search) run(ctx context.Context) error {
	return overlapped(ctx, func(ctx context.Context, submit func(job) error) error {
		for _, rows := range blocks(q.x.Rows, q.e.o.Rows) {
			if err := q.block(ctx, rows, submit); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *search) block(ctx context.Context, rows block, submit func(job) error) error {
	k := int64(q.k)
	l := newLists(q.x.Matrix, q.y.Matrix, q.a, rows, q.k, q.workers, q.columns[rows.from*k:(rows.from+rows.n)*k])
	b := &best{q: q, rows: rows, merge: func(f found) error {
		return submit(func(ctx context.Context) error { return l.merge(ctx, f) })
	}}
	defer b.free()
	tiles := blocks(q.y.Rows, q.e.o.Columns)
	same, many := make([][]member, len(tiles)), false
	if q.owners != nil {
		same, many = q.owners.masks(rows, tiles)
	}
	for i, columns := range tiles {
		err := q.e.worker.Do(ctx, func(s *torch.Scope) error {
			t := q.a.multiply(s, q.x, q.y, rows, columns, q.k, q.foldCol)
			if many {
				q.owners.maskAll(s, t)
			} else {
				mask(s, t, same[i])
			}
			if err := b.take(s, t, raises(i)); err != nil {
				return err
			}
			if q.also != nil {
				return q.also(s, t, submit)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return q.e.worker.Do(ctx, b.flush)
}

// best is a search within a block of rows, continued from tile to tile.
type best struct {
	q     *search
	rows  block
	merge func(found) error
	// largest [rows, k] holds the largest of the groups' maxima so far: values of k different products.
	largest *torch.Tensor
	kept    hitList
}

func (b *best) free() {
	b.largest.Free()
	b.kept.free()
}

// floors returns the values below which products can be dropped.
func (b *best) floors(s *torch.Scope) *torch.Tensor {
	return s.AddScalar(s.Select(b.largest, 1, int64(b.q.k)-1), -b.q.a.reach())
}

// raises reports whether tile i of a block of rows raises the floors: tile 0 and the powers of two do. Low floors keep
// more products, and never fewer. Between two raises about k products of a row are above its floor. Together that is k
// log2(n) for n tiles, where raising in every tile would keep k ln(n). It costs less than finding the k largest maxima
// in every tile.
func raises(i int) bool { return i&(i-1) == 0 }

// take keeps the products of a tile above the floors, and raises the floors first if asked to.
func (b *best) take(s *torch.Scope, t *tile, raise bool) error {
	side := t.byRow(s, b.q.e.limit())
	k := int64(b.q.k)
	if b.largest == nil {
		b.largest = s.Keep(s.Full(math.Inf(-1), torch.Float32, b.rows.n, k))
	}
	if raise {
		top, _ := s.TopK(side.maxima, min(k, side.groups), 1)
		top, _ = s.TopK(s.Cat(1, b.largest, top), k, 1)
		b.largest.CopyFrom(top)
	}
	return side.each(s, b.floors(s), func(s *torch.Scope, h hits) error {
		b.kept.add(s, h)
		if b.kept.n > side.limit {
			return b.flush(s)
		}
		return nil
	})
}

// flush passes on the kept products that are still above the floors, which have risen meanwhile.
func (b *best) flush(s *torch.Scope) error {
	if b.kept.n == 0 {
		return nil
	}
	h := b.kept.take(s)
	lines := s.Sub(h.lines, number(s, b.rows.from))
	index := s.Select(s.NonZero(s.Ge(h.values, s.IndexSelect(b.floors(s), 0, lines))), 1, 0)
	return b.merge(h.only(s, index).pull())
}
