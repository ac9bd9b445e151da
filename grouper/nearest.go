package grouper

import (
	"context"
	"math"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

// nearestLists holds for every anchor its best few partners: those of the greatest similarity, the lowest index first
// among equals. A list is a heap with its worst entry at the root.
type nearestLists struct {
	size   int       // entries of a full list
	counts []int32   // entries that a list has so far
	scores []float32 // size a list
	items  []int32   // size a list, beside scores
	floor  []float32 // the score of the worst entry of a full list, -Inf of another: less need not be offered
}

func newNearestLists(anchors, size int) *nearestLists {
	l := &nearestLists{
		size:   size,
		counts: make([]int32, anchors),
		scores: make([]float32, anchors*size),
		items:  make([]int32, anchors*size),
		floor:  make([]float32, anchors),
	}
	for i := range l.floor {
		l.floor[i] = float32(math.Inf(-1))
	}
	return l
}

// list returns the scores and items of an anchor, in no order.
func (l *nearestLists) list(anchor int32) (scores []float32, items []int32) {
	from := int(anchor) * l.size
	to := from + int(l.counts[anchor])
	return l.scores[from:to], l.items[from:to]
}

// ahead is the order of partners: the greater similarity, then the lower index.
func ahead(score float32, item int32, thanScore float32, thanItem int32) bool {
	return score > thanScore || score == thanScore && item < thanItem
}

// offer adds a partner to an anchor's list when it belongs there; the result does not depend on the order of offers.
func (l *nearestLists) offer(anchor, item int32, score float32) {
	from := int(anchor) * l.size
	scores, items := l.scores[from:from+l.size], l.items[from:from+l.size]
	if n := int(l.counts[anchor]); n < l.size {
		for n > 0 { // up from the new leaf, while the entry above is the better one
			up := (n - 1) / 2
			if !ahead(scores[up], items[up], score, item) {
				break
			}
			scores[n], items[n] = scores[up], items[up]
			n = up
		}
		scores[n], items[n] = score, item
		l.counts[anchor]++
		if int(l.counts[anchor]) == l.size {
			l.floor[anchor] = scores[0]
		}
		return
	}
	if !ahead(score, item, scores[0], items[0]) {
		return
	}
	n := 0
	for { // down from the root, while an entry below is the worse one
		down := 2*n + 1
		if down >= l.size {
			break
		}
		if right := down + 1; right < l.size && ahead(scores[down], items[down], scores[right], items[right]) {
			down = right
		}
		if !ahead(score, item, scores[down], items[down]) {
			break
		}
		scores[n], items[n] = scores[down], items[down]
		n = down
	}
	scores[n], items[n] = score, item
	l.floor[anchor] = scores[0]
}

// tileRows returns the side of the square of products to compute at a time: two blocks of rows and their products fit
// into a megabyte of cache.
func tileRows(dim int) int { return max(64, min(256, (1<<16)/max(dim, 1)/4*4)) }

// nearest finds the lists of all images (their best texts) and of all texts (their best images) in one pass over the
// products, which it never holds all at once. A pair is never in its own list. If image numbers the pairs' images, a
// pair is in no list of a pair with the same image either.
func nearest(ctx context.Context, v, t *dotproduct.Matrix, image []int32, size int) (images, texts *nearestLists, err error) {
	n := v.Rows()
	side := min(tileRows(v.Dim()), n)
	images, texts = newNearestLists(n, size), newNearestLists(n, size)
	products := make([]float32, side*side)
	for i := 0; i < n; i += side {
		for j := 0; j < n && ctx.Err() == nil; j += side {
			at := tile{i, min(n, i+side), j, min(n, j+side), image}
			dotproduct.Block(products, v, at.i0, at.i1-at.i0, t, at.j0, at.j1-at.j0)
			at.offer(products, images, texts)
		}
	}
	return images, texts, ctx.Err()
}

// tile is images i0..i1 against texts j0..j1.
type tile struct {
	i0, i1, j0, j1 int
	image          []int32
}

// strangers says whether two pairs may be in each other's lists.
func (at tile) strangers(i, j int) bool {
	return i != j && (at.image == nil || at.image[i] != at.image[j])
}

func (at tile) offer(products []float32, images, texts *nearestLists) {
	floors := texts.floor[at.j0:at.j1]
	for i := at.i0; i < at.i1; i++ {
		row := products[(i-at.i0)*len(floors):][:len(floors)]
		floor := images.floor[i]
		for j, score := range row {
			if score >= floor && at.strangers(i, at.j0+j) {
				images.offer(int32(i), int32(at.j0+j), score)
				floor = images.floor[i]
			}
			if score >= floors[j] && at.strangers(i, at.j0+j) {
				texts.offer(int32(at.j0+j), int32(i), score)
			}
		}
	}
}
