package knn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// Reference solves both problems by the book: every score, sorted. It is what other engines are measured against, and
// works without cgo; its cost is cubic for tests' sizes and hopeless for a real group.
type Reference struct{}

var (
	_ Engine   = Reference{}
	_ Searcher = Reference{}
)

func rowsOf(m Matrix) [][]float32 {
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

// Neighbors implements [Engine].
func (Reference) Neighbors(ctx context.Context, v, t Matrix, p Params) (Result, error) {
	if err := CheckNeighbors(v, t, p); err != nil {
		return Result{}, err
	}
	images, texts := rowsOf(v), rowsOf(t)
	everyone := func(int) bool { return true }
	var out Result
	for i := range images {
		if err := ctx.Err(); err != nil {
			return Result{}, err
		}
		v2t := ranked(t.Rows, func(j int) float64 { return Score(images[i], texts[j]) }, everyone)
		v2v := ranked(v.Rows, func(j int) float64 { return Score(images[i], images[j]) }, func(j int) bool {
			return j != i && (p.Owner == nil || p.Owner[i] != p.Owner[j])
		})
		t2v := ranked(v.Rows, func(j int) float64 { return Score(images[j], texts[i]) }, everyone)
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

// CheckNeighbors verifies the arguments of [Engine.Neighbors].
func CheckNeighbors(v, t Matrix, p Params) error {
	if err := errors.Join(v.Check(), t.Check()); err != nil {
		return err
	}
	if v.Rows != t.Rows || v.Dim != t.Dim {
		return fmt.Errorf("images are %d x %d, texts %d x %d", v.Rows, v.Dim, t.Rows, t.Dim)
	}
	return p.Check(v.Rows)
}

// KMeans implements [Engine].
func (Reference) KMeans(ctx context.Context, x Matrix, p KMeansParams) (Clusters, error) {
	if err := x.Check(); err != nil {
		return Clusters{}, err
	}
	return Lloyd(ctx, x, p, &plainKernel{rows: rowsOf(x), dim: x.Dim})
}

// Assign implements [Engine].
func (Reference) Assign(ctx context.Context, x Matrix, centroids []float32, _ int) ([]int32, error) {
	if err := errors.Join(x.Check(), FloatMatrix(centroids, x.Dim).Check()); err != nil {
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
			if s := Score(row, centroid) - Score(centroid, centroid)/2; c == 0 || s > bestScore {
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
