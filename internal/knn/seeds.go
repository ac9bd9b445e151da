package knn

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// seedsSample is how many rows per cluster the first centroids are drawn from.
const seedsSample = 5

// Scorer computes scores of pairs of rows.
type Scorer interface {
	// Scores computes Score(x[left[i]], x[right[i]]) for every i.
	Scores(ctx context.Context, x Matrix, left, right []int32, scores []float64) error
}

// CheckScores verifies the arguments of [Scorer].Scores.
func CheckScores(x Matrix, left, right []int32, scores []float64) error {
	if err := x.Check(); err != nil {
		return fmt.Errorf("scoring: %w", err)
	}
	if len(left) != len(scores) || len(right) != len(scores) {
		return fmt.Errorf("scoring %d and %d rows into %d places", len(left), len(right), len(scores))
	}
	for i := range scores {
		if left[i] < 0 || int(left[i]) >= x.Rows || right[i] < 0 || int(right[i]) >= x.Rows {
			return fmt.Errorf("scoring rows %d and %d of %d", left[i], right[i], x.Rows)
		}
	}
	return nil
}

// Seeds draws rows of x to start k-means from: by k-means++ over a random sample of a few rows per cluster, which costs
// less than one iteration and leads to less inertia than random rows. The rows are distinct, and the same for the same r.
func Seeds(ctx context.Context, scorer Scorer, x Matrix, clusters int, r *rand.Rand) ([]int32, error) {
	if err := x.Check(); err != nil {
		return nil, err
	}
	if clusters < 1 || clusters > x.Rows {
		return nil, fmt.Errorf("choosing %d of %d rows", clusters, x.Rows)
	}
	rows := sample(x.Rows, seedsSample*clusters, r)
	squares, products := make([]float64, len(rows)), make([]float64, len(rows))
	if err := scorer.Scores(ctx, x, rows, rows, squares); err != nil {
		return nil, fmt.Errorf("measuring %d sampled rows: %w", len(rows), err)
	}
	nearest := make([]float64, len(rows)) // squared distance to the nearest chosen row
	for i := range nearest {
		nearest[i] = math.Inf(1)
	}
	chosen, isChosen := []int32{}, make([]bool, len(rows))
	centre := make([]int32, len(rows))
	at := r.IntN(len(rows))
	for {
		chosen, isChosen[at] = append(chosen, rows[at]), true
		if len(chosen) == clusters {
			return chosen, nil
		}
		for i := range centre {
			centre[i] = rows[at]
		}
		if err := scorer.Scores(ctx, x, centre, rows, products); err != nil {
			return nil, fmt.Errorf("measuring distances to row %d: %w", rows[at], err)
		}
		for i, product := range products {
			nearest[i] = min(nearest[i], max(0, squares[i]+squares[at]-2*product))
		}
		at = drawn(nearest, isChosen, r)
	}
}

// drawn picks an index with a probability proportional to its weight, and not one that is taken.
func drawn(weights []float64, taken []bool, r *rand.Rand) int {
	total := 0.0
	for i, w := range weights {
		if !taken[i] {
			total += w
		}
	}
	left, last := r.Float64()*total, -1
	for i, w := range weights {
		if taken[i] {
			continue
		}
		if last = i; w > 0 && left < w {
			return i
		}
		left -= w
	}
	return last // all that is left equals a chosen row, or the sum was rounded
}

// sample draws distinct numbers below n, ascending; all of them when there are no more.
func sample(n, size int, r *rand.Rand) []int32 {
	if size >= n {
		all := make([]int32, n)
		for i := range all {
			all[i] = int32(i)
		}
		return all
	}
	seen := make(map[int32]bool, size)
	rows := make([]int32, 0, size)
	for at := n - size; at < n; at++ { // Floyd's sampling
		row := int32(r.IntN(at + 1))
		if seen[row] {
			row = int32(at)
		}
		seen[row] = true
		rows = append(rows, row)
	}
	slices.Sort(rows)
	return rows
}
