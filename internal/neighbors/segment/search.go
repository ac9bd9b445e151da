package segment

import (
	"cmp"
	"context"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// The extent of a search, and its portions.
const (
	visitShare = 64     // a search visits one in this many lists, the nearest
	visitRows  = 16_384 // and at least as many lists as hold these rows on average
	scanRows   = 512    // rows of a scan
	scanAtOnce = 256    // queries of a scan
	inHand     = 4096   // queries that one worker groups by the lists that they visit
)

// Hit is a row of a segment, with the approximate inner product of its vector with a query.
type Hit struct {
	Segment, Row int32
	Score        float32
}

// better orders hits: by score, then the earlier segment, then the lower row.
func better(a, b Hit) int {
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Row, b.Row))
}

// Index searches segments of one width.
type Index struct {
	scanner  knn.CodeScanner
	segments []*Segment
	lists    []listRef // of all segments
	rows     int
	all      bool // visit every list
}

// listRef is a list of a segment.
type listRef struct{ segment, list int32 }

// NewIndex makes an index over segments, which the caller closes.
func NewIndex(scanner knn.CodeScanner, segments ...*Segment) *Index {
	x := &Index{scanner: scanner, segments: segments}
	for i, s := range segments {
		x.rows += s.Rows
		for list := range s.Lists {
			x.lists = append(x.lists, listRef{int32(i), int32(list)})
		}
	}
	return x
}

// Exact returns an index whose searches visit every list.
func (x *Index) Exact() *Index {
	exact := *x
	exact.all = true
	return &exact
}

// Rows returns the number of rows of all segments.
func (x *Index) Rows() int { return x.rows }

// Segment returns the segment of a hit.
func (x *Index) Segment(h Hit) *Segment { return x.segments[h.Segment] }

// visits returns the number of lists that a search visits.
func (x *Index) visits() int {
	n := len(x.lists)
	if x.all {
		return n
	}
	return Visits(n, x.rows)
}

// Visits returns the number of lists that a search visits, for a number of rows and lists.
func Visits(lists, rows int) int {
	share := max(1.0/visitShare, float64(visitRows)/float64(max(1, rows)))
	return min(lists, int(math.Ceil(share*float64(lists))))
}

// Queries are encoded vectors to search for.
type Queries struct {
	codes  []int16
	scales []float32
	dim    int
}

// NewQueries encodes n rows that row appends.
func NewQueries(n, dim int, row func(i int, dst []float32) []float32) Queries {
	q := Queries{codes: make([]int16, n*dim), scales: make([]float32, n), dim: dim}
	var buf []float32
	for i := range n {
		buf = row(i, buf[:0])
		q.scales[i] = knn.EncodeQuery(buf, q.codes[i*dim:(i+1)*dim])
	}
	return q
}

// Len returns the number of queries.
func (q Queries) Len() int { return len(q.scales) }

func (q Queries) part(from, to int) Queries {
	return Queries{codes: q.codes[from*q.dim : to*q.dim], scales: q.scales[from:to], dim: q.dim}
}

// Score returns the approximate inner product of a query with a row, as a search scores it.
func (q Queries) Score(i int, c knn.Codes, row int) float32 {
	product := int32(0)
	codes := c.Values[row*c.Dim : (row+1)*c.Dim]
	for j, x := range q.codes[i*q.dim : (i+1)*q.dim] {
		product += int32(x) * int32(codes[j])
	}
	return float32(product) * c.Scales[row] * q.scales[i]
}

// Visitor takes the hits of queries. It is called by one goroutine for each query.
type Visitor interface {
	// Least returns the score below which a query's hit is useless.
	Least(query int) float32
	// Take takes a hit, whose score may be a little below Least.
	Take(query int, h Hit)
}

// Scan passes a visitor the rows of a modality in the lists that each query visits. Workers take different queries.
func (x *Index) Scan(ctx context.Context, m Modality, q Queries, workers int, v Visitor) error {
	if len(x.lists) == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, workers))
	for from := 0; from < q.Len(); from += inHand {
		group.Go(func() error {
			to := min(from+inHand, q.Len())
			w := worker{x: x, m: m, q: q.part(from, to), first: from, v: v}
			return w.run(ctx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return x.Err()
}

// Err returns an error if the file of a segment was truncated meanwhile.
func (x *Index) Err() error {
	for _, s := range x.segments {
		if err := s.Err(); err != nil {
			return err
		}
	}
	return nil
}

// worker searches for some of the queries.
type worker struct {
	x     *Index
	m     Modality
	q     Queries
	first int // number of its first query
	v     Visitor
	hits  []knn.CodeHit
}

func (w *worker) run(ctx context.Context) error {
	visitors := make([][]int32, len(w.x.lists)) // queries of every list
	for from := 0; from < w.q.Len(); from += scanAtOnce {
		if err := w.choose(from, min(from+scanAtOnce, w.q.Len()), visitors); err != nil {
			return err
		}
	}
	for list, queries := range visitors {
		if err := ctx.Err(); err != nil {
			return err
		}
		for some := range slices.Chunk(queries, scanAtOnce) {
			if err := w.scan(w.x.lists[list], some); err != nil {
				return err
			}
		}
	}
	return nil
}

// choose finds the lists that queries [from, to) visit.
func (w *worker) choose(from, to int, visitors [][]int32) error {
	n := w.x.visits()
	if n == len(w.x.lists) {
		for list := range visitors {
			for query := from; query < to; query++ {
				visitors[list] = append(visitors[list], int32(query))
			}
		}
		return nil
	}
	nearest := make([]Best, to-from)
	for i := range nearest {
		nearest[i].K = n
	}
	q, number := w.q.part(from, to), int32(0)
	for _, s := range w.x.segments {
		centres := s.Centroids(w.m)
		for first := 0; first < s.Lists; first += scanRows {
			part := centres.Part(first, min(first+scanRows, s.Lists))
			err := w.each(part, q, func(i int) float32 { return nearest[i].Least() }, func(i int, row int32, score float32) {
				if a, b := s.List(first + int(row)); a < b {
					nearest[i].Take(Hit{Row: number + int32(first) + row, Score: score})
				}
			})
			if err != nil {
				return err
			}
		}
		number += int32(s.Lists)
	}
	for i := range nearest {
		for _, h := range nearest[i].hits {
			visitors[h.Row] = append(visitors[h.Row], int32(from+i))
		}
	}
	return nil
}

// scan passes the visitor the rows of a list.
func (w *worker) scan(at listRef, queries []int32) error {
	q := Queries{codes: make([]int16, 0, len(queries)*w.q.dim), dim: w.q.dim}
	for _, i := range queries {
		q.codes = append(q.codes, w.q.part(int(i), int(i)+1).codes...)
		q.scales = append(q.scales, w.q.scales[i])
	}
	s := w.x.segments[at.segment]
	rows := s.Codes(w.m)
	from, to := s.List(int(at.list))
	for ; from < to; from += scanRows {
		first := from
		err := w.each(rows.Part(first, min(first+scanRows, to)), q,
			func(i int) float32 { return w.v.Least(w.first + int(queries[i])) },
			func(i int, row int32, score float32) {
				w.v.Take(w.first+int(queries[i]), Hit{Segment: at.segment, Row: int32(first) + row, Score: score})
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// each calls take for the rows whose scores reach least. A scan knows scores without the scales of queries, so its
// bounds are a little lower than least.
func (w *worker) each(rows knn.Codes, q Queries, least func(int) float32, take func(i int, row int32, score float32)) error {
	const lower, upper = 1 - 1e-6, 1 + 1e-6
	bounds := make([]float32, q.Len())
	for i, scale := range q.scales {
		bound := float64(least(i))
		switch {
		case scale == 0 || math.IsInf(bound, -1):
			bounds[i] = float32(math.Inf(-1))
			continue
		case bound > 0:
			bound *= lower
		default:
			bound *= upper
		}
		bounds[i] = float32(bound / float64(scale))
	}
	var err error
	if w.hits, err = w.x.scanner.ScanCodes(rows, q.codes, bounds, w.hits); err != nil {
		return err
	}
	for _, h := range w.hits {
		take(int(h.Query), h.Row, h.Score*q.scales[h.Query])
	}
	return nil
}

// Best keeps the K best hits that it is given; K is at least 1.
type Best struct {
	K    int
	hits []Hit // a heap: the worst first
}

// Least returns the score below which a hit is useless.
func (b *Best) Least() float32 {
	if len(b.hits) < b.K {
		return float32(math.Inf(-1))
	}
	return b.hits[0].Score
}

// Take takes a hit.
func (b *Best) Take(h Hit) {
	if len(b.hits) < b.K {
		b.hits = append(b.hits, h)
		for i := len(b.hits) - 1; i > 0 && better(b.hits[i], b.hits[(i-1)/2]) > 0; i = (i - 1) / 2 {
			b.hits[i], b.hits[(i-1)/2] = b.hits[(i-1)/2], b.hits[i]
		}
		return
	}
	if better(h, b.hits[0]) >= 0 {
		return
	}
	b.hits[0] = h
	for i := 0; ; {
		worst := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(b.hits); child++ {
			if better(b.hits[child], b.hits[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		b.hits[i], b.hits[worst] = b.hits[worst], b.hits[i]
		i = worst
	}
}

// Sorted returns the hits, best first.
func (b *Best) Sorted() []Hit {
	slices.SortFunc(b.hits, better)
	return b.hits
}

// nearest is a visitor that keeps the best hits of every query.
type nearest struct {
	best []Best
	keep func(query int, h Hit) bool
}

func (n *nearest) Least(query int) float32 { return n.best[query].Least() }

func (n *nearest) Take(query int, h Hit) {
	if b := &n.best[query]; h.Score >= b.Least() && (n.keep == nil || n.keep(query, h)) {
		b.Take(h)
	}
}

// Search finds the k best rows for each query, among those that keep accepts; nil: all.
func (x *Index) Search(ctx context.Context, m Modality, q Queries, k, workers int, keep func(query int, h Hit) bool) ([][]Hit, error) {
	n := &nearest{best: make([]Best, q.Len()), keep: keep}
	for i := range n.best {
		n.best[i].K = k
	}
	if err := x.Scan(ctx, m, q, workers, n); err != nil {
		return nil, err
	}
	out := make([][]Hit, q.Len())
	for i := range out {
		out[i] = n.best[i].Sorted()
	}
	return out, nil
}
