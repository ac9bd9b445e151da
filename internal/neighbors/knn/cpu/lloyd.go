package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// meansClusters is the number of clusters that one task averages.
const meansClusters = 16

// KMeans implements [knn.Engine]. Beside the matrix it takes 28 bytes per row.
func (Engine) KMeans(ctx context.Context, x knn.Matrix, p knn.KMeansParams) (knn.Clusters, error) {
	if err := errors.Join(x.Check(), p.Check(x.Rows)); err != nil {
		return knn.Clusters{}, fmt.Errorf("clustering: %w", err)
	}
	var out knn.Clusters
	err := withLloyd(ctx, x, len(p.Init), p.Threads, func(l *lloyd) (err error) {
		out, err = knn.Lloyd(ctx, x, p, l)
		return err
	})
	if err != nil {
		return knn.Clusters{}, fmt.Errorf("clustering %d rows: %w", x.Rows, err)
	}
	return out, nil
}

// Assign implements [knn.Engine].
func (Engine) Assign(ctx context.Context, x knn.Matrix, centroids []float32, threads int) ([]int32, error) {
	c := knn.FloatMatrix(centroids, x.Dim)
	if err := errors.Join(x.Check(), c.Check()); err != nil {
		return nil, fmt.Errorf("assigning: %w", err)
	}
	assign := make([]int32, x.Rows)
	for i := range assign {
		assign[i] = -1
	}
	err := withLloyd(ctx, x, c.Rows, threads, func(l *lloyd) error {
		if err := l.SetCentroids(centroids); err != nil {
			return err
		}
		_, err := l.Assign(ctx, assign)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("assigning %d rows: %w", x.Rows, err)
	}
	return assign, nil
}

// scoresChunk is the number of scores that one call computes: few, so that the threads share the work of the first
// centroids.
const scoresChunk = 512

// Scores implements [knn.Scorer].
func (Engine) Scores(ctx context.Context, x knn.Matrix, left, right []int32, scores []float64) error {
	if err := knn.CheckScores(x, left, right, scores); err != nil {
		return err
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	rows := pinned(&pin, x)
	chunks := (len(scores) + scoresChunk - 1) / scoresChunk
	return knn.Spread(ctx, knn.Workers(0, chunks), chunks, func(_, i int) error {
		from, to := i*scoresChunk, min((i+1)*scoresChunk, len(scores))
		return check("scoring pairs of rows",
			C.ps_scores(rows, C.int64_t(to-from), ints(left[from:to]), ints(right[from:to]), doubles(scores[from:to])))
	})
}

// lloyd is a [knn.Kernel].
type lloyd struct {
	handle          *C.ps_lloyd
	dim, clusters   int
	blocks, workers int
}

var _ knn.Kernel = (*lloyd)(nil)

func withLloyd(ctx context.Context, x knn.Matrix, clusters, asked int, use func(*lloyd) error) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	l := &lloyd{dim: x.Dim, clusters: clusters, blocks: blocksOf(x.Rows)}
	l.workers = knn.Workers(asked, l.blocks)
	if err := check("beginning", C.ps_lloyd_new(pinned(&pin, x), C.int32_t(clusters), C.int32_t(l.workers), &l.handle)); err != nil {
		return err
	}
	defer C.ps_lloyd_free(l.handle)
	norms := func(_, i int) error { return check("measuring norms", C.ps_lloyd_norms(l.handle, C.int64_t(i))) }
	if err := knn.Spread(ctx, l.workers, l.blocks, norms); err != nil {
		return err
	}
	residuals := func(_, i int) error {
		return check("measuring residuals", C.ps_lloyd_residuals(l.handle, C.int64_t(i)))
	}
	if err := knn.Spread(ctx, l.workers, l.blocks, residuals); err != nil {
		return err
	}
	return use(l)
}

// SetCentroids implements [knn.Kernel].
func (l *lloyd) SetCentroids(centroids []float32) error {
	return check("packing centroids", C.ps_lloyd_set_centroids(l.handle, floats(centroids)))
}

// Assign implements [knn.Kernel].
func (l *lloyd) Assign(ctx context.Context, assign []int32) (int64, error) {
	changes := make([]int64, l.blocks)
	err := knn.Spread(ctx, l.workers, l.blocks, func(worker, i int) error {
		var changed C.int64_t
		text := C.ps_lloyd_assign(l.handle, C.int32_t(worker), C.int64_t(i), ints(assign), &changed)
		changes[i] = int64(changed)
		return check("assigning a block", text)
	})
	total := int64(0)
	for _, n := range changes {
		total += n
	}
	return total, err
}

// Means implements [knn.Kernel].
func (l *lloyd) Means(ctx context.Context, order []int32, from []int64, mean []float64) error {
	tasks := (l.clusters + meansClusters - 1) / meansClusters
	return knn.Spread(ctx, min(l.workers, tasks), tasks, func(_, i int) error {
		first := i * meansClusters
		last := min(first+meansClusters, l.clusters)
		return check("averaging clusters",
			C.ps_lloyd_means(l.handle, ints(order), longs(from), C.int32_t(first), C.int32_t(last), doubles(mean)))
	})
}

// Distances implements [knn.Kernel].
func (l *lloyd) Distances(ctx context.Context, assign []int32, centres, distances []float64) error {
	return knn.Spread(ctx, l.workers, l.blocks, func(_, i int) error {
		return check("measuring distances",
			C.ps_lloyd_distances(l.handle, C.int64_t(i), ints(assign), doubles(centres), doubles(distances)))
	})
}
