package grouper

import (
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

// neighbours lists for each pair the others with an edge to it; an edge of weight 2 is listed twice.
type neighbours struct {
	ends  []int32 // those of pair i are others[ends[i-1]:ends[i]]
	other []int32
}

func (g neighbours) of(i int32) []int32 {
	from := int32(0)
	if i > 0 {
		from = g.ends[i-1]
	}
	return g.other[from:g.ends[i]]
}

// rankGraph has an edge from each image to the texts of the ranks behind the first skip ones, count of them. Ranks are by
// product, and equal products by position. Pairs of the image itself have no rank.
//
// Products in fixed point choose the texts that may be among the first ranks. The products of float32, which are the
// same on every machine, then decide.
func rankGraph(ctx context.Context, v, t *dotproduct.Matrix, image []int32, skip, count int) (neighbours, error) {
	n := len(image)
	ranked := make([][]int32, n)
	r := newRanker(v, t, image, skip, count)
	for i0 := 0; i0 < n; i0 += rankedRows {
		if err := ctx.Err(); err != nil {
			return neighbours{}, err
		}
		here := min(rankedRows, n-i0)
		for k := range here {
			r.lists[k] = rankedList{entries: r.lists[k].entries[:0], least: math.MinInt32}
		}
		r.multiply(i0, i0+here)
		for i := i0; i < i0+here; i++ {
			ranked[i] = r.decide(i, r.lists[i-i0].entries)
		}
	}
	return newNeighbours(ranked), nil
}

// newNeighbours returns the undirected graph with an edge for each entry of lists.
func newNeighbours(lists [][]int32) neighbours {
	g := neighbours{ends: make([]int32, len(lists))}
	for i, others := range lists {
		g.ends[i] += int32(len(others))
		for _, j := range others {
			g.ends[j]++
		}
	}
	at := make([]int32, len(lists)) // where the next one of each pair goes
	for i := 1; i < len(lists); i++ {
		g.ends[i] += g.ends[i-1]
		at[i] = g.ends[i-1]
	}
	g.other = make([]int32, g.ends[len(lists)-1])
	put := func(i, j int32) {
		g.other[at[i]] = j
		at[i]++
	}
	for i, others := range lists {
		for _, j := range others {
			put(int32(i), j)
			put(j, int32(i))
		}
	}
	return g
}

// The part of the square of products that is worked on at a time stays in the cache with its lists.
const (
	rankedRows    = 16 * dotproduct.BlockRows
	rankedColumns = 4 * dotproduct.BlockColumns
)

// ranker finds ranks.
type ranker struct {
	v, t        *dotproduct.Matrix
	image       []int32
	skip, count int
	fixed       *dotproduct.Fixed // of the images
	panels      *dotproduct.Panels
	margin      int64 // products in fixed point that differ by more are those of similarities in the same order
	lists       [rankedRows]rankedList
	products    []float32
}

// rankedList holds the texts that may be among the first ranks of an image.
type rankedList struct {
	entries []int64 // in no order: the product above, the text below
	least   int32   // no text of a lesser product is among the first ranks
}

func newRanker(v, t *dotproduct.Matrix, image []int32, skip, count int) *ranker {
	r := &ranker{v: v, t: t, image: image, skip: skip, count: count, fixed: dotproduct.NewFixed(v)}
	texts := dotproduct.NewFixed(t)
	r.panels, r.margin = dotproduct.NewPanels(texts), 2*r.fixed.Bound(texts)
	for k := range r.lists {
		r.lists[k].entries = make([]int64, 0, 3*(skip+count)+8)
	}
	return r
}

// multiply fills the lists of images i0..i1.
func (r *ranker) multiply(i0, i1 int) {
	var p dotproduct.Products
	var rows [dotproduct.BlockRows]int32
	never := [dotproduct.BlockColumns]int32{}
	for j := range never {
		never[j] = math.MaxInt32
	}
	n := len(r.image)
	for tile := 0; tile < n; tile += rankedColumns {
		for i := i0; i < i1; i += dotproduct.BlockRows {
			for j := tile; j < min(n, tile+rankedColumns); j += dotproduct.BlockColumns {
				for k := range rows {
					rows[k] = math.MaxInt32
					if i+k < i1 {
						rows[k] = r.lists[i+k-i0].least
					}
				}
				p.Multiply(r.fixed, i, r.panels, j/dotproduct.BlockColumns, &rows, &never)
				for k := range min(dotproduct.BlockRows, i1-i) {
					r.offer(&r.lists[i+k-i0], r.image[i+k], j, p.Reach[k], &p.Values[k])
				}
			}
		}
	}
}

// offer adds the texts from j on whose products reach, of other images.
func (r *ranker) offer(l *rankedList, own int32, j int, reach uint64, products *[dotproduct.BlockColumns]int32) {
	for ; reach != 0; reach &= reach - 1 {
		at := bits.TrailingZeros64(reach)
		if text := j + at; text < len(r.image) && r.image[text] != own && products[at] >= l.least {
			l.entries = append(l.entries, int64(products[at])<<32|int64(text))
			if len(l.entries) == cap(l.entries) {
				r.shorten(l)
			}
		}
	}
}

// shorten leaves out the texts that are not among the first ranks.
func (r *ranker) shorten(l *rankedList) {
	size := r.skip + r.count
	selectGreatest(l.entries, size)
	l.least = int32(max(math.MinInt32, slices.Min(l.entries[:size])>>32-r.margin))
	kept := l.entries[:size]
	for _, e := range l.entries[size:] {
		if int32(e>>32) >= l.least {
			kept = append(kept, e)
		}
	}
	if l.entries = kept; len(kept) > cap(kept)/2 {
		l.entries = slices.Grow(kept, 2*cap(kept)) // many products are close
	}
}

// decide returns the texts of the ranks behind the first skip ones, in no order. It uses the list up.
func (r *ranker) decide(i int, entries []int64) []int32 {
	texts := make([]int32, len(entries))
	for k, e := range entries {
		texts[k] = int32(e)
	}
	if len(r.products) < len(texts) {
		r.products = make([]float32, 2*len(texts))
	}
	dotproduct.Gather(r.products, r.v.Row(i), r.t, texts)
	for k, j := range texts {
		entries[k] = int64(ordered(r.products[k]))<<32 | int64(math.MaxInt32-j)
	}
	selectGreatest(entries, r.skip+r.count)
	entries = entries[:min(len(entries), r.skip+r.count)]
	selectGreatest(entries, r.skip)
	entries = entries[min(len(entries), r.skip):]
	others := make([]int32, len(entries))
	for k, e := range entries {
		others[k] = math.MaxInt32 - int32(e)
	}
	return others
}

// ordered returns an integer that is ordered like x.
func ordered(x float32) int32 {
	n := int32(math.Float32bits(x))
	if n < 0 {
		return -(n & math.MaxInt32)
	}
	return n
}
