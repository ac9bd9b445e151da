// Package reference solves the problems of internal/neighbors/knn by the book: it computes every score, and sorts.
//
// In go matrices and parameters; out come the positions that internal/neighbors/knn defines. Tests compare the other
// engines with this one. It needs no cgo. Its cost suits the sizes of tests, not those of a group.
package reference

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// Engine computes every score and sorts. Its zero value is ready, and safe for concurrent use.
type Engine struct{}

var (
	_ knn.Engine   = Engine{}
	_ knn.Searcher = Engine{}
)

func rowsOf(m knn.Matrix) [][]float32 {
	rows := make([][]float32, m.Rows)
	for i := range rows {
		rows[i] = m.Row(i, nil)
	}
	return rows
}

// ranked lists the positions of the highest scores, ties by position.
func ranked(n int, score func(int) float64, keep func(int) bool) []int32 {
	scores := make([]float64, n)
	var order []int32
	for i := range n {
		if keep(i) {
			scores[i] = score(i)
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return order
}

// pad cuts or fills with -1 to k values.
func pad(positions []int32, k int) []int32 {
	out := append([]int32(nil), positions[:min(k, len(positions))]...)
	for len(out) < k {
		out = append(out, -1)
	}
	return out
}

// Neighbors implements [knn.Engine].
func (Engine) Neighbors(ctx context.Context, v, t knn.Matrix, p knn.Params) (knn.Result, error) {
	if err := knn.CheckNeighbors(v, t, p); err != nil {
		return knn.Result{}, err
	}
	images, texts := rowsOf(v), rowsOf(t)
	everyone := func(int) bool { return true }
	var out knn.Result
	for i := range images {
		if err := ctx.Err(); err != nil {
			return knn.Result{}, err
		}
		v2t := ranked(t.Rows, func(j int) float64 { return knn.Score(images[i], texts[j]) }, everyone)
		v2v := ranked(v.Rows, func(j int) float64 { return knn.Score(images[i], images[j]) }, func(j int) bool {
			return j != i && (p.Owner == nil || p.Owner[i] != p.Owner[j])
		})
		t2v := ranked(v.Rows, func(j int) float64 { return knn.Score(images[j], texts[i]) }, everyone)
		v2v, t2v = v2v[:min(p.K1, len(v2v))], t2v[:min(p.K2, len(t2v))]
		var se []int32
		for _, j := range v2v {
			if slices.Contains(t2v, j) {
				se = append(se, j)
			}
		}
		out.V2T = append(out.V2T, pad(v2t, p.K)...)
		out.V2V = append(out.V2V, pad(v2v, p.K1)...)
		out.SE = append(out.SE, pad(se, p.K1)...)
	}
	return out, nil
}

// KMeans implements [knn.Engine].
func (Engine) KMeans(ctx context.Context, x knn.Matrix, p knn.KMeansParams) (knn.Clusters, error) {
	if err := x.Check(); err != nil {
		return knn.Clusters{}, err
	}
	return knn.Lloyd(ctx, x, p, &plainKernel{rows: rowsOf(x), dim: x.Dim})
}

// Assign implements [knn.Engine].
func (Engine) Assign(ctx context.Context, x knn.Matrix, centroids []float32, _ int) ([]int32, error) {
	if err := errors.Join(x.Check(), knn.FloatMatrix(centroids, x.Dim).Check()); err != nil {
		return nil, err
	}
	kernel := &plainKernel{rows: rowsOf(x), dim: x.Dim}
	assign := make([]int32, x.Rows)
	if err := kernel.SetCentroids(centroids); err != nil {
		return nil, err
	}
	_, err := kernel.Assign(ctx, assign)
	return assign, err
}

type plainKernel struct {
	rows      [][]float32
	dim       int
	centroids [][]float32
}

func (k *plainKernel) SetCentroids(centroids []float32) error {
	k.centroids = nil
	for row := range slices.Chunk(centroids, k.dim) {
		k.centroids = append(k.centroids, slices.Clone(row))
	}
	return nil
}

func (k *plainKernel) Assign(_ context.Context, assign []int32) (int64, error) {
	changed := int64(0)
	for i, row := range k.rows {
		best, bestScore := 0, 0.0
		for c, centroid := range k.centroids {
			if s := knn.Score(row, centroid) - knn.Score(centroid, centroid)/2; c == 0 || s > bestScore {
				best, bestScore = c, s
			}
		}
		if assign[i] != int32(best) {
			changed++
		}
		assign[i] = int32(best)
	}
	return changed, nil
}

func (k *plainKernel) Means(_ context.Context, order []int32, from []int64, mean []float64) error {
	for c := range len(from) - 1 {
		sum := mean[c*k.dim : (c+1)*k.dim]
		clear(sum)
		for _, row := range order[from[c]:from[c+1]] {
			for j, x := range k.rows[row] {
				sum[j] += float64(x)
			}
		}
		for j := range sum {
			sum[j] /= float64(from[c+1] - from[c])
		}
	}
	return nil
}

func (k *plainKernel) Distances(_ context.Context, assign []int32, centres, distances []float64) error {
	for i, row := range k.rows {
		distances[i] = 0
		for j, c := range centres[int(assign[i])*k.dim : (int(assign[i])+1)*k.dim] {
			e := float64(row[j]) - c
			e *= e // a statement of its own: no fused multiply-add
			distances[i] += e
		}
	}
	return nil
}

// Scores implements [knn.Scorer].
func (Engine) Scores(_ context.Context, x knn.Matrix, left, right []int32, scores []float64) error {
	for i := range left {
		scores[i] = knn.Score(x.Row(int(left[i]), nil), x.Row(int(right[i]), nil))
	}
	return nil
}
