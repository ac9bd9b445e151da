package grouper

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/pairstream/pairstream/internal/dotproduct"
)

// WalkRule says how a walk is made, beyond equation (5) of GRIT-VLP.
type WalkRule struct {
	// Images numbers the image of each pair, and BatchSize is the length of the mini-batches into which the walk will be
	// cut: a pair whose image is already in the mini-batch that is being filled is passed over unless nothing else is
	// left. Without Images, or with a BatchSize of 0, no pair is passed over, as in the paper.
	Images    []int32
	BatchSize int
	// Workers is how many goroutines compute similarities; the result does not depend on it.
	Workers int
}

// listSize returns how many partners of every pair are looked up before a walk over n. Longer lists take longer to make,
// about in proportion to their length; shorter ones run out more often, about n / (length + 1) times, and then all that
// is left has to be looked at. The square root balances the two.
func listSize(n int) int { return max(16, min(128, int(math.Sqrt(float64(n))/3))) }

// Walk orders pairs by GRIT-VLP's grouping phase (eq. 5, Algorithm 2 as in the released code): beginning with pair
// start, the image of the current pair looks for the most similar text among the pairs not yet visited, then the text of
// that pair for the most similar image, and so on in turns. Row i of v and of t are the features of pair i. Equal
// similarities go to the lower index. Nothing else decides: visited pairs are marked, never given a similarity of zero.
//
// The order is exactly the greedy one. Each pair needs only its best few partners, found in one pass over blocks of
// products; when the walk has visited them all, the pair is compared with everything that is left. No matrix of M x M
// similarities is ever held, and the time is near that of one product of v and t.
func Walk(ctx context.Context, v, t *dotproduct.Matrix, start int, rule WalkRule) ([]int32, error) {
	return walk(ctx, v, t, start, rule, tuning{lists: listSize(v.Rows()), grain: 2048})
}

// tuning changes how fast a walk is, never its order.
type tuning struct {
	lists int // partners looked up for each pair
	grain int // products that take longer than starting a goroutine for them
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
	images, texts, err := nearest(ctx, v, t, nil, max(1, min(tune.lists, n-1)), rule.Workers)
	if err != nil {
		return nil, fmt.Errorf("walking %d pairs: %w", n, err)
	}
	w := newWalker(n, rule, tune.grain)
	order := make([]int32, 0, n)
	current := int32(start)
	w.visit(current, 0)
	order = append(order, current)
	for len(order) < n {
		if len(order)%1024 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("walking %d pairs: %w", n, ctx.Err())
		}
		from, anchors, partners := images, v, t
		if len(order)%2 == 0 {
			from, anchors, partners = texts, t, v
		}
		next := w.listed(from.list(current))
		if next < 0 {
			next = w.scan(anchors.Row(int(current)), partners)
		}
		w.visit(next, len(order))
		order = append(order, next)
		current = next
	}
	return order, nil
}

// walker knows which pairs are left, and which of them have their image in the mini-batch that is being filled.
type walker struct {
	batchSize int
	workers   int
	grain     int
	image     []int32 // of each pair, numbered from 0; nil: no pair is passed over
	filling   []int32 // of each image: 1 + the last mini-batch that it is in
	batch     int32   // 1 + the mini-batch that is being filled
	left      []int32 // the pairs not visited, in no order
	place     []int32 // of each pair in left; -1: visited
	scores    []float32
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
	if w.image != nil {
		w.filling[w.image[pair]] = 1 + int32(position/w.batchSize)
		w.batch = 1 + int32((position+1)/w.batchSize)
	}
}

// passed says whether the pair's image is already in the mini-batch that is being filled.
func (w *walker) passed(pair int32) bool {
	return w.image != nil && w.filling[w.image[pair]] == w.batch
}

// listed picks the best of a list that is neither visited nor passed over; -1 when there is none. Whatever is not in the
// list comes after everything in it, so this is the best of all.
func (w *walker) listed(scores []float32, items []int32) int32 {
	best, bestScore := int32(-1), float32(0)
	for k, item := range items {
		if w.place[item] >= 0 && (best < 0 || ahead(scores[k], item, bestScore, best)) && !w.passed(item) {
			best, bestScore = item, scores[k]
		}
	}
	return best
}

// scan picks the best of all that are left; of those passed over only when nothing else is left.
func (w *walker) scan(anchor []float32, partners *dotproduct.Matrix) int32 {
	if w.scores == nil {
		w.scores = make([]float32, len(w.left))
	}
	scores := w.scores[:len(w.left)]
	pieces := max(1, min(w.workers, len(scores)/w.grain))
	piece := (len(scores) + pieces - 1) / pieces
	var group sync.WaitGroup
	for from := piece; from < len(scores); from += piece {
		to := min(from+piece, len(scores))
		group.Go(func() { dotproduct.Gather(scores[from:to], anchor, partners, w.left[from:to]) })
	}
	dotproduct.Gather(scores[:min(piece, len(scores))], anchor, partners, w.left[:min(piece, len(scores))])
	group.Wait()
	best, bestPassed := -1, -1
	for k, item := range w.left {
		switch {
		case best >= 0 && !ahead(scores[k], item, scores[best], w.left[best]):
		case !w.passed(item):
			best = k
		case bestPassed < 0 || ahead(scores[k], item, scores[bestPassed], w.left[bestPassed]):
			bestPassed = k
		}
	}
	if best < 0 {
		best = bestPassed
	}
	return w.left[best]
}
