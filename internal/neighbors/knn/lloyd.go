package knn

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Kernel performs the expensive steps of k-means over fixed rows.
type Kernel interface {
	// SetCentroids takes the centroids of the next assignment, cluster by cluster.
	SetCentroids(centroids []float32) error
	// Assign replaces every row's cluster, -1 at first, by the nearest centroid: the largest Score(x, c) - Score(c,
	// c)/2, ties to the lower cluster. It returns the number of rows that changed.
	Assign(ctx context.Context, assign []int32) (int64, error)
	// Means computes the mean of every cluster in float64, member by member in ascending order: cluster c has the rows
	// order[from[c]:from[c+1]].
	Means(ctx context.Context, order []int32, from []int64, mean []float64) error
	// Distances computes the squared distance of every row to its cluster's centre.
	Distances(ctx context.Context, assign []int32, centres, distances []float64) error
}

// Lloyd runs k-means over the rows of x with the kernel's arithmetic.
//
// Centroids are float64 means, rounded to float32 for the next assignment. A cluster that lost its last member takes
// the row farthest from its centre, the lower position on a tie, from clusters of two or more. Clusters are served in
// ascending order. The rounds end early when one changes no assignment.
func Lloyd(ctx context.Context, x Matrix, p KMeansParams, kernel Kernel) (Clusters, error) {
	if err := x.Check(); err != nil {
		return Clusters{}, err
	}
	if err := p.Check(x.Rows); err != nil {
		return Clusters{}, err
	}
	k := len(p.Init)
	out := Clusters{Assign: make([]int32, x.Rows), Centroids: make([]float64, k*x.Dim)}
	for i := range out.Assign {
		out.Assign[i] = -1
	}
	rounded := make([]float32, 0, k*x.Dim)
	for _, row := range p.Init {
		rounded = x.Row(int(row), rounded)
	}
	distances := make([]float64, x.Rows)
	for out.Rounds < p.Iterations {
		if err := kernel.SetCentroids(rounded); err != nil {
			return Clusters{}, fmt.Errorf("setting the centroids of round %d: %w", out.Rounds, err)
		}
		changed, err := kernel.Assign(ctx, out.Assign)
		if err != nil {
			return Clusters{}, fmt.Errorf("assigning in round %d: %w", out.Rounds, err)
		}
		out.Rounds++
		if changed == 0 {
			break
		}
		order, from, err := members(ctx, out.Assign, rounded, distances, k, kernel)
		if err != nil {
			return Clusters{}, err
		}
		if err := kernel.Means(ctx, order, from, out.Centroids); err != nil {
			return Clusters{}, fmt.Errorf("averaging in round %d: %w", out.Rounds, err)
		}
		for i, c := range out.Centroids {
			rounded[i] = float32(c)
		}
	}
	if err := kernel.Distances(ctx, out.Assign, out.Centroids, distances); err != nil {
		return Clusters{}, fmt.Errorf("measuring inertia: %w", err)
	}
	for _, d := range distances {
		out.Inertia += d
	}
	return out, nil
}

// members sorts the rows by cluster, after giving every empty cluster a row.
func members(ctx context.Context, assign []int32, centroids []float32, distances []float64, k int, kernel Kernel) ([]int32, []int64, error) {
	size := make([]int64, k)
	for _, c := range assign {
		size[c]++
	}
	var empty []int32
	for c, n := range size {
		if n == 0 {
			empty = append(empty, int32(c))
		}
	}
	if len(empty) > 0 {
		centres := make([]float64, len(centroids))
		for i, c := range centroids {
			centres[i] = float64(c)
		}
		if err := kernel.Distances(ctx, assign, centres, distances); err != nil {
			return nil, nil, fmt.Errorf("looking for members of %d empty clusters: %w", len(empty), err)
		}
		refill(assign, size, distances, empty)
	}
	from := make([]int64, k+1)
	for c, n := range size {
		from[c+1] = from[c] + n
	}
	order, next := make([]int32, len(assign)), append([]int64(nil), from[:k]...)
	for row, c := range assign {
		order[next[c]] = int32(row)
		next[c]++
	}
	return order, from, nil
}

// refill moves the farthest rows into the empty clusters. A row that moved is alone in its cluster, so it stays there.
func refill(assign []int32, size []int64, distances []float64, empty []int32) {
	byDistance := make([]int32, len(assign))
	for i := range byDistance {
		byDistance[i] = int32(i)
	}
	slices.SortFunc(byDistance, func(a, b int32) int {
		return cmp.Or(cmp.Compare(distances[b], distances[a]), cmp.Compare(a, b))
	})
	next := 0
	for _, c := range empty {
		for size[assign[byDistance[next]]] < 2 { // ends: there are at least as many rows as clusters
			next++
		}
		row := byDistance[next]
		size[assign[row]]--
		size[c]++
		assign[row] = c
		next++
	}
}
