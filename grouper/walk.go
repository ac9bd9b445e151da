package grouper

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

// WalkRule says how a walk is made, beyond equation (5) of GRIT-VLP.
type WalkRule struct {
	// Images numbers the image of each pair, and BatchSize is the length of the mini-batches into which the walk will
	// be cut. A pair whose image is already in the current mini-batch is skipped, unless only such pairs are left.
	// Without Images, or with a BatchSize of 0, no pair is skipped, as in the paper.
	Images    []int32
	BatchSize int
	// Workers is how many goroutines compute similarities; the result does not depend on it.
	Workers int
}

// listSize returns how many partners of every pair to look up before a walk over n. Longer lists take proportionally
// longer to make. Shorter lists run out more often, about n / (length + 1) times, and each time the walk scans all
// unvisited pairs. The square root balances the two. With codes a scan takes a fourth of the time.
func listSize(n int, codes bool) int {
	root := math.Sqrt(float64(n)) / 8
	if codes {
		root /= 2
	}
	return max(6, min(128, int(root)))
}

// Walk orders pairs by GRIT-VLP's grouping phase (eq. 5, Algorithm 2 as in the released code): beginning with pair
// start, the image of the current pair looks for the most similar text among the pairs not yet visited, then the text
// of that pair for the most similar image, and so on in turns. Row i of v and of t are the features of pair i. Equal
// similarities go to the lower index. Nothing else decides: visited pairs are marked, never given a similarity of zero.
//
// The order is exactly the greedy one. Integers select the few partners that may be the most similar; if there are
// several, their similarities decide. A short walk of one or two workers scans the 8-bit codes of all unvisited pairs
// at every step. A longer walk gives each pair a list of its best partners, found in one pass over blocks of
// fixed-point products. When the walk has visited a whole list, it scans all unvisited pairs. It never holds a matrix
// of M x M similarities.
func Walk(ctx context.Context, v, t *dotproduct.Matrix, start int, rule WalkRule) ([]int32, error) {
	codes := dotproduct.FastCodes
	return walk(ctx, v, t, start, rule, tuning{lists: listSize(v.Rows(), codes), grain: 2048, codes: codes, whole: 3 << 19})
}

// tuning changes how fast a walk is, never its order.
type tuning struct {
	lists int  // partners looked up for each pair
	grain int  // products that take longer than starting a goroutine for them
	codes bool // all that is left is looked at by codes, not by numbers in fixed point
	whole int  // bytes of codes that are read for each pair in less time than lists are made
}

func walk(ctx context.Context, v, t *dotproduct.Matrix, start int, rule WalkRule, tune tuning) ([]int32, error) {
	n := v.Rows()
	if n == 0 {
		return nil, nil
	}
	if t.Rows() != n || t.Dim() != v.Dim() || start < 0 || start >= n || rule.Images != nil && len(rule.Images) != n {
		return nil, fmt.Errorf("walking from pair %d: %d x %d images, %d x %d texts, %d image numbers",
			start, n, v.Dim(), t.Rows(), t.Dim(), len(rule.Images))
	}
	w := newWalker(n, rule, tune.grain)
	if err := w.prepare(ctx, v, t, tune); err != nil {
		return nil, fmt.Errorf("walking %d pairs: %w", n, err)
	}
	order := make([]int32, 0, n)
	current := int32(start)
	w.visit(current, 0)
	order = append(order, current)
	for len(order) < n {
		if len(order)%1024 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("walking %d pairs: %w", n, ctx.Err())
		}
		anchors, others := &w.images, &w.texts
		if len(order)%2 == 0 {
			anchors, others = others, anchors
		}
		next := w.next(current, anchors, others)
		w.visit(next, len(order))
		order = append(order, next)
		current = next
	}
	return order, nil
}

// walkedRows are those of the images or of the texts of a walk. They have codes, or numbers in fixed point, or both.
type walkedRows struct {
	exact *dotproduct.Matrix
	codes *dotproduct.Codes
	fixed *dotproduct.Fixed
	lists *fixedLists // nil: each pair is compared with all that are left
}

// prepare brings images and texts into codes, where these tell partners apart. It makes lists, unless the codes are
// few.
func (w *walker) prepare(ctx context.Context, v, t *dotproduct.Matrix, tune tuning) (err error) {
	w.images, w.texts = walkedRows{exact: v}, walkedRows{exact: t}
	if tune.codes {
		w.both(func(r *walkedRows) { r.codes = dotproduct.NewCodes(r.exact) })
		bound, narrow := w.images.codes.Bound(w.texts.codes)
		if w.codesBound = 2 * bound; !narrow {
			w.images.codes, w.texts.codes = nil, nil
		} else if v.Rows()*v.Dim() <= tune.whole && w.workers <= 2 { // what reads them is one
			return nil
		}
	}
	w.both(func(r *walkedRows) { r.fixed = dotproduct.NewFixed(r.exact) })
	w.bound = 2 * w.images.fixed.Bound(w.texts.fixed)
	w.images.lists, w.texts.lists, err = partners(ctx, w.images.fixed, w.texts.fixed, max(1, min(tune.lists, v.Rows()-1)), w.workers)
	return err
}

// both does something with the images and with the texts.
func (w *walker) both(do func(*walkedRows)) {
	if w.workers <= 1 {
		do(&w.images)
		do(&w.texts)
		return
	}
	var group sync.WaitGroup
	group.Go(func() { do(&w.texts) })
	do(&w.images)
	group.Wait()
}

// walker knows which pairs are left, and which of them have their image in the mini-batch that is being filled.
type walker struct {
	images     walkedRows
	texts      walkedRows
	batchSize  int
	workers    int
	grain      int
	image      []int32 // of each pair, numbered from 0; nil: no pair is passed over
	filling    []int32 // of each image: 1 + the last mini-batch that it is in
	batch      int32   // 1 + the mini-batch that is being filled
	left       []int32 // the pairs not visited, in no order
	place      []int32 // of each pair in left; -1: visited
	bound      int64   // products that differ by more are those of similarities in the same order
	codesBound int64   // the same, of products of codes
	close      []int32 // partners that may be the most similar
	products   []int32 // scan's products with unvisited pairs; look's products with close
	scores     []float32
	panel      dotproduct.CodeProducts
}

func newWalker(n int, rule WalkRule, grain int) *walker {
	w := &walker{
		batchSize: rule.BatchSize, workers: rule.Workers, grain: grain,
		left: make([]int32, n), place: make([]int32, n), batch: 1,
	}
	for i := range w.left {
		w.left[i], w.place[i] = int32(i), int32(i)
	}
	if rule.Images != nil && rule.BatchSize > 0 {
		numbers := make(map[int32]int32, n)
		w.image = make([]int32, n)
		for i, image := range rule.Images {
			number, ok := numbers[image]
			if !ok {
				number = int32(len(numbers))
				numbers[image] = number
			}
			w.image[i] = number
		}
		w.filling = make([]int32, len(numbers))
	}
	return w
}

// visit marks a pair as the one at a position of the walk.
func (w *walker) visit(pair int32, position int) {
	last := w.left[len(w.left)-1]
	w.left[w.place[pair]], w.place[last] = last, w.place[pair]
	w.left = w.left[:len(w.left)-1]
	w.place[pair] = -1
	if w.images.codes != nil {
		w.images.codes.Remove(pair)
		w.texts.codes.Remove(pair)
	}
	if w.image != nil {
		w.filling[w.image[pair]] = 1 + int32(position/w.batchSize)
		w.batch = 1 + int32((position+1)/w.batchSize)
	}
}

// passed says whether the pair's image is already in the mini-batch that is being filled.
func (w *walker) passed(pair int32) bool {
	return w.image != nil && w.filling[w.image[pair]] == w.batch
}

// next picks the best partner of a pair that is neither visited nor passed over; of those passed over only when nothing
// else is left.
func (w *walker) next(current int32, anchors, others *walkedRows) int32 {
	switch {
	case anchors.lists != nil && w.listed(anchors.lists.list(current), anchors.lists.floor[current]):
	case anchors.codes == nil:
		w.scan(current, anchors, others)
	case !w.look(current, anchors, others, false):
		w.look(current, anchors, others, true)
	}
	return w.decide(current, anchors, others)
}

// look collects the partners that may be the best of all that are left, by their codes. It says no where each is passed
// over, and all are not wanted.
func (w *walker) look(current int32, anchors, others *walkedRows, all bool) bool {
	w.close, w.products = w.close[:0], w.products[:0]
	least := int64(math.MinInt32)
	for next := 0; ; {
		others.codes.Look(&w.panel, anchors.codes, current, next, int32(least))
		if w.panel.Reach == 0 {
			break
		}
		for reach := w.panel.Reach; reach != 0; reach &= reach - 1 {
			at := bits.TrailingZeros64(reach)
			item, product := w.panel.Rows[at], w.panel.Values[at]
			if int64(product) < least || !all && w.passed(item) {
				continue
			}
			w.close, w.products = append(w.close, item), append(w.products, product)
			least = max(least, int64(product)-w.codesBound)
		}
		next = w.panel.Next
	}
	kept := 0
	for k, item := range w.close {
		if int64(w.products[k]) >= least {
			w.close[kept] = item
			kept++
		}
	}
	w.close = w.close[:kept]
	return kept > 0
}

// listed collects the partners in a list that may be the best of all. It says no where one outside of the list may be:
// none of them has a product above the floor.
func (w *walker) listed(entries []int64, floor int32) bool {
	best := int64(math.MinInt64)
	for _, e := range entries {
		if e > best && w.place[int32(e)] >= 0 && !w.passed(int32(e)) {
			best = e
		}
	}
	if best == math.MinInt64 || (floor != math.MinInt32 && best>>32-w.bound <= int64(floor)) {
		return false
	}
	w.close = w.close[:0]
	for _, e := range entries {
		if e>>32 >= best>>32-w.bound && w.place[int32(e)] >= 0 && !w.passed(int32(e)) {
			w.close = append(w.close, int32(e))
		}
	}
	return true
}

// decide picks the most similar of the partners that were collected.
func (w *walker) decide(current int32, anchors, others *walkedRows) int32 {
	if len(w.close) == 1 {
		return w.close[0]
	}
	if cap(w.scores) < len(w.close) {
		w.scores = make([]float32, len(w.close), max(2*len(w.close), 64))
	}
	scores := w.scores[:len(w.close)]
	dotproduct.Gather(scores, anchors.exact.Row(int(current)), others.exact, w.close)
	best := 0
	for k, item := range w.close {
		if ahead(scores[k], item, scores[best], w.close[best]) {
			best = k
		}
	}
	return w.close[best]
}

// scan collects the partners that may be the best of all that are left.
func (w *walker) scan(current int32, anchors, others *walkedRows) {
	if w.products == nil {
		w.products = make([]int32, len(w.left))
	}
	products := w.products[:len(w.left)]
	pieces := max(1, min(w.workers, len(products)/w.grain))
	piece := (len(products) + pieces - 1) / pieces
	gather := func(from, to int) {
		dotproduct.GatherFixed(products[from:to], anchors.fixed, int(current), others.fixed, w.left[from:to])
	}
	var group sync.WaitGroup
	for from := piece; from < len(products); from += piece {
		group.Go(func() { gather(from, min(from+piece, len(products))) })
	}
	gather(0, min(piece, len(products)))
	group.Wait()
	best, all := int64(math.MinInt64), false
	for k, item := range w.left {
		if int64(products[k]) > best && !w.passed(item) {
			best = int64(products[k])
		}
	}
	if all = best == math.MinInt64; all { // every one is passed over
		best = int64(slices.Max(products))
	}
	w.close = w.close[:0]
	for k, item := range w.left {
		if int64(products[k]) >= best-w.bound && (all || !w.passed(item)) {
			w.close = append(w.close, item)
		}
	}
}
