package device

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/x448/float16"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// widened returns all float16 values as float32: reading one is several times as fast as converting it.
var widened = sync.OnceValue(func() *[1 << 16]float32 {
	out := new([1 << 16]float32)
	for bits := range out {
		out[bits] = float16.Frombits(uint16(bits)).Float32()
	}
	return out
})

// reader reads the rows of a matrix as float32. It is for one goroutine.
type reader struct {
	m     knn.Matrix
	wide  *[1 << 16]float32
	space []float32
}

func newReader(m knn.Matrix) *reader {
	r := &reader{m: m}
	if m.Halves != nil {
		r.wide, r.space = widened(), make([]float32, m.Dim)
	}
	return r
}

// row returns row i as float32. It is valid until the next call.
func (r *reader) row(i int) []float32 {
	if r.m.Floats != nil {
		return r.m.Floats[i*r.m.Dim : (i+1)*r.m.Dim]
	}
	for j, bits := range r.m.Halves[i*r.m.Dim : (i+1)*r.m.Dim] {
		r.space[j] = r.wide[bits]
	}
	return r.space
}

// found holds hits that have come from the device.
type found struct {
	lines, places []int64
	values        []float32
}

// byLine sorts the hits by line. Those of line from+i are order[starts[i]:starts[i+1]].
func (f found) byLine(lines block) (order []int32, starts []int32) {
	starts = make([]int32, lines.n+1)
	for _, line := range f.lines {
		starts[line-lines.from+1]++
	}
	for i := range lines.n {
		starts[i+1] += starts[i]
	}
	next := slices.Clone(starts)
	order = make([]int32, len(f.lines))
	for at, line := range f.lines {
		order[next[line-lines.from]] = int32(at)
		next[line-lines.from]++
	}
	return order, starts
}

// lists hold, for a block of rows, the best k columns among those offered, best first.
type lists struct {
	x, y    knn.Matrix
	a       arithmetic
	rows    block
	k       int
	workers int
	columns []int32 // -1 where there is none yet
	scores  []float64
	sizes   []int
}

func newLists(x, y knn.Matrix, a arithmetic, rows block, k, workers int, columns []int32) *lists {
	for i := range columns {
		columns[i] = -1
	}
	return &lists{
		x: x, y: y, a: a, rows: rows, k: k, workers: workers, columns: columns,
		scores: make([]float64, rows.n*int64(k)), sizes: make([]int, rows.n),
	}
}

// lineChunk is the number of rows whose hits one task scores.
const lineChunk = 32

// merge offers the hits, each product once.
func (l *lists) merge(ctx context.Context, f found) error {
	order, starts := f.byLine(l.rows)
	chunks := blocks(int(l.rows.n), lineChunk)
	return knn.Spread(ctx, knn.Workers(l.workers, len(chunks)), len(chunks), func(_, i int) error {
		left, right := newReader(l.x), newReader(l.y)
		for line := chunks[i].from; line < chunks[i].from+chunks[i].n; line++ {
			of := order[starts[line]:starts[line+1]]
			if len(of) == 0 {
				continue
			}
			row := left.row(int(l.rows.from + line))
			for _, at := range of {
				if l.useless(line, f.values[at]) {
					continue
				}
				place := f.places[at]
				score := knn.Score(row, right.row(int(place)))
				if err := l.a.verify(l.rows.from+line, place, f.values[at], score); err != nil {
					return err
				}
				l.insert(line, int32(place), score)
			}
		}
		return nil
	})
}

// useless reports whether a product of this value scores below k others.
func (l *lists) useless(line int64, value float32) bool {
	return l.sizes[line] == l.k && float64(value)+l.a.eps < l.scores[(line+1)*int64(l.k)-1]
}

func (l *lists) insert(line int64, column int32, score float64) {
	from, n := int(line)*l.k, l.sizes[line]
	scores, columns := l.scores[from:from+l.k], l.columns[from:from+l.k]
	at, _ := slices.BinarySearchFunc(scores[:n], score, func(have, score float64) int { return cmp.Compare(score, have) })
	for at < n && scores[at] == score && columns[at] < column {
		at++
	}
	if at == l.k {
		return
	}
	n = min(n+1, l.k)
	copy(scores[at+1:n], scores[at:])
	copy(columns[at+1:n], columns[at:])
	scores[at], columns[at], l.sizes[line] = score, column, n
}
