package device

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// Neighbors implements [knn.Engine].
//
// It takes, per member and besides the matrices, 4*(k+2*k1) bytes of results and 12*k1 of counts, and the hits of a few
// tiles.
func (e *Engine) Neighbors(ctx context.Context, v, t knn.Matrix, p knn.Params) (knn.Result, error) {
	if err := knn.CheckNeighbors(v, t, p); err != nil {
		return knn.Result{}, fmt.Errorf("finding neighbours: %w", err)
	}
	out, err := e.neighbors(ctx, v, t, p)
	if err != nil {
		return knn.Result{}, fmt.Errorf("finding the neighbours of %d pairs on %s: %w", v.Rows, e.worker.Device(), err)
	}
	return out, nil
}

func (e *Engine) neighbors(ctx context.Context, v, t knn.Matrix, p knn.Params) (knn.Result, error) {
	done, err := e.wait(ctx)
	if err != nil {
		return knn.Result{}, err
	}
	defer done()
	images, err := e.upload(ctx, v, p.Threads)
	if err != nil {
		return knn.Result{}, fmt.Errorf("images: %w", err)
	}
	defer images.free()
	texts, err := e.upload(ctx, t, p.Threads)
	if err != nil {
		return knn.Result{}, fmt.Errorf("texts: %w", err)
	}
	defer texts.free()
	out := knn.Result{
		V2T: make([]int32, v.Rows*p.K),
		V2V: make([]int32, v.Rows*p.K1),
		SE:  make([]int32, v.Rows*p.K1),
	}
	if err := e.amongImages(ctx, images, p, out.V2V); err != nil {
		return knn.Result{}, fmt.Errorf("comparing images with images: %w", err)
	}
	if err := e.amongTexts(ctx, images, texts, p, out); err != nil {
		return knn.Result{}, fmt.Errorf("comparing images with texts: %w", err)
	}
	return out, nil
}

// amongImages processes the rows of V V^T. The matrix is symmetric, but computing half of it would need the floors of
// all rows and columns at once. Most of a GPU's time goes into reading the products, not into computing them.
func (e *Engine) amongImages(ctx context.Context, images *matrix, p knn.Params, v2v []int32) error {
	a, err := e.arithmetic(images.Dim, images.Halves != nil, images.norm, images.norm)
	if err != nil {
		return err
	}
	q := &search{e: e, x: images, y: images, a: a, k: p.K1, workers: p.Threads, columns: v2v, owners: newOwners(p.Owner)}
	return q.run(ctx)
}

// amongTexts processes V T^T, by rows for V2T and by columns for T2V.
func (e *Engine) amongTexts(ctx context.Context, images, texts *matrix, p knn.Params, out knn.Result) error {
	a, err := e.arithmetic(images.Dim, images.Halves != nil && texts.Halves != nil, images.norm, texts.norm)
	if err != nil {
		return err
	}
	r, err := newRanks(ctx, e, images, texts, a, p, out.V2V)
	if err != nil {
		return err
	}
	defer r.free()
	q := &search{
		e: e, x: images, y: texts, a: a, k: p.K, workers: p.Threads, columns: out.V2T, also: r.count, foldCol: maxFold,
	}
	if err := q.run(ctx); err != nil {
		return err
	}
	return r.write(ctx, out.SE)
}
