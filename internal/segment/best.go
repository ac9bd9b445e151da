package segment

import (
	"context"
	"math"
	"slices"
)

// Best keeps the K best hits that it is given; K is at least 1.
type Best struct {
	K    int
	hits []Hit // a heap: the worst first
}

// Least returns the score below which a hit is of no use.
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

// Search finds the k best rows for each query, among those that keep lets pass; nil: all.
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
