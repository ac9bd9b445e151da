package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"context"
	"fmt"
	"runtime"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// blockRows is the number of rows of a block; a task is a tile of block x block.
var blockRows = int(C.ps_neighbors_block())

func blocksOf(rows int) int { return (rows + blockRows - 1) / blockRows }

// Neighbors implements [knn.Engine].
//
// Beside the matrices it takes, per member, about 8*(2*max(k, k1)+16) + 24*k1 + 4*k bytes, and per thread two blocks of
// rows.
func (Engine) Neighbors(ctx context.Context, v, t knn.Matrix, p knn.Params) (knn.Result, error) {
	if err := knn.CheckNeighbors(v, t, p); err != nil {
		return knn.Result{}, fmt.Errorf("finding neighbours: %w", err)
	}
	blocks := blocksOf(v.Rows)
	workers := knn.Workers(p.Threads, blocks*blocks)
	var pin runtime.Pinner
	defer pin.Unpin()
	params := C.ps_neighbor_params{k: C.int32_t(p.K), k1: C.int32_t(p.K1), k2: C.int32_t(p.K2), workers: C.int32_t(workers)}
	if p.Owner != nil {
		pin.Pin(&p.Owner[0])
		params.owner = ints(p.Owner)
	}
	s := search{blocks: blocks, workers: workers}
	if err := check("finding neighbours", C.ps_neighbors_new(pinned(&pin, v), pinned(&pin, t), params, &s.handle)); err != nil {
		return knn.Result{}, err
	}
	defer C.ps_neighbors_free(s.handle)
	out := knn.Result{
		V2T: make([]int32, v.Rows*p.K),
		V2V: make([]int32, v.Rows*p.K1),
		SE:  make([]int32, v.Rows*p.K1),
	}
	if err := s.run(ctx, out); err != nil {
		return knn.Result{}, fmt.Errorf("finding the neighbours of %d pairs: %w", v.Rows, err)
	}
	return out, nil
}

// search is one computation of neighbours.
type search struct {
	handle          *C.ps_neighbors
	blocks, workers int
}

func (s *search) run(ctx context.Context, out knn.Result) error {
	n := s.blocks
	if err := s.each(ctx, n, func(_, i int) *C.char { return C.ps_neighbors_norms(s.handle, C.int64_t(i)) }); err != nil {
		return err
	}
	if err := s.each(ctx, n, func(_, i int) *C.char { return C.ps_neighbors_residuals(s.handle, C.int64_t(i)) }); err != nil {
		return err
	}
	if err := s.images(ctx, out.V2V); err != nil {
		return fmt.Errorf("comparing images with images: %w", err)
	}
	if err := s.texts(ctx, out.V2T, out.SE); err != nil {
		return fmt.Errorf("comparing images with texts: %w", err)
	}
	return nil
}

// images computes the upper triangle of V V^T, diagonal by diagonal. The main diagonal comes first, because it gives
// every row a threshold that rejects most later products. Consecutive tiles touch different blocks.
func (s *search) images(ctx context.Context, v2v []int32) error {
	if err := check("beginning", C.ps_neighbors_begin_images(s.handle)); err != nil {
		return err
	}
	type tile struct{ i, j int }
	var tiles []tile
	for diagonal := range s.blocks {
		for i := range s.blocks - diagonal {
			tiles = append(tiles, tile{i, i + diagonal})
		}
	}
	err := s.each(ctx, len(tiles), func(worker, i int) *C.char {
		return C.ps_neighbors_images(s.handle, C.int32_t(worker), C.int64_t(tiles[i].i), C.int64_t(tiles[i].j))
	})
	if err != nil {
		return err
	}
	return s.each(ctx, s.blocks, func(_, i int) *C.char {
		return C.ps_neighbors_end_images(s.handle, C.int64_t(i), ints(v2v))
	})
}

// texts computes V T^T, also diagonal by diagonal, for V2T by rows and T2V by columns.
func (s *search) texts(ctx context.Context, v2t, se []int32) error {
	if err := check("beginning", C.ps_neighbors_begin_texts(s.handle)); err != nil {
		return err
	}
	err := s.each(ctx, s.blocks*s.blocks, func(worker, at int) *C.char {
		i, diagonal := at%s.blocks, at/s.blocks
		return C.ps_neighbors_texts(s.handle, C.int32_t(worker), C.int64_t(i), C.int64_t((i+diagonal)%s.blocks))
	})
	if err != nil {
		return err
	}
	return s.each(ctx, s.blocks, func(_, i int) *C.char {
		return C.ps_neighbors_end_texts(s.handle, C.int64_t(i), ints(v2t), ints(se))
	})
}

func (s *search) each(ctx context.Context, n int, task func(worker, i int) *C.char) error {
	return knn.Spread(ctx, min(s.workers, n), n, func(worker, i int) error { return check("computing a tile", task(worker, i)) })
}
