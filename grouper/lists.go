package grouper

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

// fixedLists holds for every anchor some partners of the greatest products in fixed point.
type fixedLists struct {
	size    int     // entries of a full list
	room    int     // entries that a list has room for
	counts  []int32 // entries that a list has
	entries []int64 // room a list, in no order: the product above, the partner below
	floor   []int32 // no partner outside of a list has a greater product
}

func newFixedLists(anchors, size int) *fixedLists {
	l := &fixedLists{size: size, room: 3*size + 8, counts: make([]int32, anchors), floor: make([]int32, anchors)}
	l.entries = make([]int64, anchors*l.room)
	for i := range l.floor {
		l.floor[i] = math.MinInt32
	}
	return l
}

// list returns the entries of an anchor, in no order.
func (l *fixedLists) list(anchor int32) []int64 {
	from := int(anchor) * l.room
	return l.entries[from : from+int(l.counts[anchor])]
}

// offer adds a partner whose product is above the floor.
func (l *fixedLists) offer(anchor, partner int, product int32) {
	n := int(l.counts[anchor])
	list := l.entries[anchor*l.room:][:l.room]
	list[n] = int64(product)<<32 | int64(partner)
	if n+1 < l.room {
		l.counts[anchor]++
		return
	}
	selectGreatest(list, l.size)
	for _, e := range list[l.size:] {
		l.floor[anchor] = max(l.floor[anchor], int32(e>>32))
	}
	l.counts[anchor] = int32(l.size)
}

// selectGreatest moves the n greatest entries to the front. They differ, as their partners do, and are below 2^62 in
// magnitude.
func selectGreatest(entries []int64, n int) {
	for n > 0 && n < len(entries) {
		if len(entries) <= 8 {
			slices.SortFunc(entries, func(a, b int64) int { return cmp.Compare(b, a) })
			return
		}
		a, b, c := entries[0], entries[len(entries)/2], entries[len(entries)-1]
		pivot := max(min(a, b), min(max(a, b), c)) // one of the others is less, one greater
		front := 0
		for i, e := range entries { // without a branch that depends on e
			entries[i] = entries[front]
			entries[front] = e
			front += 1 - int(uint64(e-pivot)>>63)
		}
		if front > n {
			entries = entries[:front]
		} else {
			entries, n = entries[front:], n-front
		}
	}
}

// fixedSide returns the side of the square of products that is worked on at a time: its rows and columns stay in half a
// megabyte of cache. It is a multiple of the rows and of the columns of a block.
func fixedSide(dim int) int {
	if dim > 256 {
		return 192
	}
	return 384
}

// partners finds the lists of all images (texts) and of all texts (images) in one pass over the products in fixed
// point. A pair is not in its own list.
func partners(ctx context.Context, v, t *dotproduct.Fixed, size, workers int) (images, texts *fixedLists, err error) {
	n, side := v.Rows(), fixedSide(v.Dim())
	tiles := (n + side - 1) / side
	images, texts = newFixedLists(n, size), newFixedLists(n, size)
	panels := dotproduct.NewPanels(t)
	// A tile changes the lists of its rows and of its columns. Every worker locks the row before the column. So a
	// worker that waits for a column lock holds no lock that the holder of that column waits for.
	rowLocks, columnLocks := make([]sync.Mutex, tiles), make([]sync.Mutex, tiles)
	var next atomic.Int64
	var group sync.WaitGroup
	for range max(1, min(workers, tiles)) {
		group.Go(func() {
			for ctx.Err() == nil {
				k := int(next.Add(1) - 1)
				if k >= tiles*tiles {
					return
				}
				row := k % tiles
				column := (row + k/tiles) % tiles // along the diagonals: neighbours in time share no lock
				rowLocks[row].Lock()
				columnLocks[column].Lock()
				s := square{v, panels, images, texts, n}
				s.offer(row*side, min(n, (row+1)*side), column*side, min(n, (column+1)*side))
				columnLocks[column].Unlock()
				rowLocks[row].Unlock()
			}
		})
	}
	group.Wait()
	return images, texts, ctx.Err()
}

// square is a part of the products of images and texts.
type square struct {
	v             *dotproduct.Fixed
	t             *dotproduct.Panels
	images, texts *fixedLists
	n             int
}

// offer offers images i0..i1 and texts j0..j1 to each other.
func (s square) offer(i0, i1, j0, j1 int) {
	var p dotproduct.Products
	var columns [dotproduct.BlockColumns]int32
	var rows [dotproduct.BlockRows]int32
	for j := j0; j < j1; j += dotproduct.BlockColumns {
		above(columns[:], s.texts.floor[j:min(j1, j+dotproduct.BlockColumns)])
		for i := i0; i < i1; i += dotproduct.BlockRows {
			above(rows[:], s.images.floor[i:min(i1, i+dotproduct.BlockRows)])
			p.Multiply(s.v, i, s.t, j/dotproduct.BlockColumns, &rows, &columns)
			s.take(&p, i, j, &columns)
		}
	}
}

// above returns the least products that lists take; behind the last of them nothing is taken.
func above(least, floors []int32) {
	for k := range least {
		least[k] = math.MaxInt32
	}
	for k, floor := range floors {
		least[k] = floor + 1
	}
}

// take offers the products of a block that reach, and raises the least of columns.
func (s square) take(p *dotproduct.Products, i0, j0 int, columns *[dotproduct.BlockColumns]int32) {
	for k, reach := range p.Reach {
		i := i0 + k
		if reach == 0 || i >= s.n {
			continue
		}
		for ; reach != 0; reach &= reach - 1 {
			at := bits.TrailingZeros64(reach)
			j, product := j0+at, p.Values[k][at]
			if j >= s.n || i == j {
				continue
			}
			if product > s.images.floor[i] {
				s.images.offer(i, j, product)
			}
			if product >= columns[at] {
				s.texts.offer(j, i, product)
				columns[at] = s.texts.floor[j] + 1
			}
		}
	}
}
