package knn

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

// seedsSample is the number of rows per cluster to draw the first centroids from.
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

// Seeds draws the starting rows of k-means: by k-means++ over a random sample of a few rows per cluster, which costs
// less than one iteration and gives less inertia than random rows. The rows are distinct, and the same for the same r.
func Seeds(ctx context.Context, scorer Scorer, x Matrix, clusters int, r *rand.Rand) ([]int32, error) {
	if err := x.Check(); err != nil {
		return nil, err
	}
	if clusters < 1 || clusters > x.Rows {
		return nil, fmt.Errorf("choosing %d of %d rows", clusters, x.Rows)
	}
	return seeds(ctx, scorer, x, clusters, r, dotproduct.FastCodes)
}

func seeds(ctx context.Context, scorer Scorer, x Matrix, clusters int, r *rand.Rand, codes bool) ([]int32, error) {
	s := seeding{scorer: scorer, x: x, rows: sample(x.Rows, seedsSample*clusters, r)}
	if err := s.begin(ctx, codes); err != nil {
		return nil, err
	}
	chosen, isChosen := []int32{}, make([]bool, len(s.rows))
	at := r.IntN(len(s.rows))
	for {
		chosen, isChosen[at] = append(chosen, s.rows[at]), true
		if len(chosen) == clusters {
			return chosen, nil
		}
		if err := s.measure(ctx, at); err != nil {
			return nil, fmt.Errorf("measuring distances to row %d: %w", s.rows[at], err)
		}
		at = drawn(s.nearest, isChosen, r)
	}
}

// seeding tracks the distances of the sampled rows from the chosen ones.
type seeding struct {
	scorer  Scorer
	x       Matrix
	rows    []int32
	squares []float64
	nearest []float64 // squared distance to the nearest chosen row
	near    []int32   // indices in rows that may be nearer to a chosen row than to those before
	left    []int32   // Scores' arguments
	right   []int32
	scores  []float64

	// Codes select the rows that may be near. The product of a row with a chosen one, in their unit, must reach half of
	// the sum of the two squares minus half of the row's nearest distance. Codes are shifted by the row's part of that.
	// Nil: every row is measured.
	codes  *dotproduct.Codes
	unit   float64
	slack  int64
	panels dotproduct.CodeProducts
}

func (s *seeding) begin(ctx context.Context, codes bool) error {
	n := len(s.rows)
	s.squares, s.scores, s.nearest = make([]float64, n), make([]float64, n), make([]float64, n)
	if err := s.scorer.Scores(ctx, s.x, s.rows, s.rows, s.squares); err != nil {
		return fmt.Errorf("measuring %d sampled rows: %w", n, err)
	}
	for i := range s.nearest {
		s.nearest[i] = math.Inf(1)
		s.near = append(s.near, int32(i)) // near to the first
	}
	if !codes {
		return nil
	}
	m := dotproduct.NewMatrix(n, s.x.Dim)
	for i, row := range s.rows {
		s.x.Row(int(row), m.Row(i)[:0])
	}
	all := dotproduct.NewCodes(m)
	if bound, narrow := all.Bound(all); narrow {
		s.codes, s.unit, s.slack = all, all.Unit(all), bound+4 // two parts are rounded
	}
	return nil
}

// measure compares the sampled rows with a chosen row.
func (s *seeding) measure(ctx context.Context, chosen int) error {
	if s.codes != nil && !math.IsInf(s.nearest[0], 1) {
		s.look(chosen)
	}
	s.left, s.right = s.left[:0], s.right[:0]
	for _, at := range s.near {
		s.left, s.right = append(s.left, s.rows[chosen]), append(s.right, s.rows[at])
	}
	scores := s.scores[:len(s.near)]
	if err := s.scorer.Scores(ctx, s.x, s.left, s.right, scores); err != nil {
		return err
	}
	for k, at := range s.near {
		distance := max(0, s.squares[at]+s.squares[chosen]-2*scores[k])
		if distance < s.nearest[at] {
			s.nearest[at] = distance
			if s.codes != nil {
				s.codes.Shift(at, int32(math.Round(s.unit*(distance-s.squares[at])/2)))
			}
		}
	}
	return nil
}

// look lists the rows that may be nearer to a chosen one than to those before.
func (s *seeding) look(chosen int) {
	s.near = s.near[:0]
	least := int64(math.Round(s.unit*s.squares[chosen]/2)) - s.slack
	for next := 0; ; next = s.panels.Next {
		s.codes.Look(&s.panels, s.codes, int32(chosen), next, int32(least))
		if s.panels.Reach == 0 {
			return
		}
		for reach := s.panels.Reach; reach != 0; reach &= reach - 1 {
			s.near = append(s.near, s.panels.Rows[bits.TrailingZeros64(reach)])
		}
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
	return last // all remaining rows equal a chosen one, or the sum was rounded
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
