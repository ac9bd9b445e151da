package faiss

/*
#include "faiss.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/pairstream/pairstream/internal/knn"
)

// hits drops what FAISS marks as no hit.
func hits(scores []float32, ids []int64) []knn.Hit {
	out := make([]knn.Hit, 0, len(ids))
	for i, id := range ids {
		if id >= 0 {
			out = append(out, knn.Hit{Row: id, Similarity: scores[i]})
		}
	}
	return out
}

// Flat is a FAISS index of float32 rows, searched exhaustively by inner product (IndexFlatIP).
//
// Searches may run concurrently with each other, not with Add or Close.
type Flat struct {
	handle *C.ps_flat
	dim    int
}

// NewFlat makes an empty index of rows of dim values.
func NewFlat(dim int) (*Flat, error) {
	if dim <= 0 {
		return nil, fmt.Errorf("making a flat index of %d dimensions: want at least 1", dim)
	}
	f := &Flat{dim: dim}
	if err := check("making a flat index", C.ps_flat_new(C.int32_t(dim), &f.handle)); err != nil {
		return nil, err
	}
	return f, nil
}

// Close frees the index.
func (f *Flat) Close() {
	C.ps_flat_free(f.handle)
	f.handle = nil
}

// Add appends rows; they are numbered in the order of their coming.
func (f *Flat) Add(rows []float32) error {
	m := knn.FloatMatrix(rows, f.dim)
	if err := m.Check(); err != nil {
		return fmt.Errorf("adding to a flat index: %w", err)
	}
	return check("adding to a flat index", C.ps_flat_add(f.handle, C.int64_t(m.Rows), floats(rows)))
}

// Search finds, for each query, the k rows with the largest inner products, best first.
func (f *Flat) Search(queries []float32, k int) ([][]knn.Hit, error) {
	m := knn.FloatMatrix(queries, f.dim)
	if err := m.Check(); err != nil || k < 1 {
		return nil, errors.Join(fmt.Errorf("searching a flat index for %d neighbours", k), err)
	}
	scores, ids := make([]float32, m.Rows*k), make([]int64, m.Rows*k)
	text := C.ps_flat_search(f.handle, C.int64_t(m.Rows), floats(queries), C.int32_t(k), floats(scores), longs(ids))
	if err := check("searching a flat index", text); err != nil {
		return nil, err
	}
	out := make([][]knn.Hit, m.Rows)
	for i := range out {
		out[i] = hits(scores[i*k:(i+1)*k], ids[i*k:(i+1)*k])
	}
	return out, nil
}

// IVF is a FAISS inverted file by inner product over float16 rows that lie elsewhere: a list holds row numbers, eight
// bytes and one each, and a search is given the matrix. So a million vectors are not held twice.
type IVF struct {
	handle     *C.ps_ivf
	dim, lists int
}

var _ knn.Lists = (*IVF)(nil)

// NewLists implements [knn.Searcher].
func (Engine) NewLists(centroids []float32, dim int) (knn.Lists, error) {
	return NewIVF(centroids, dim)
}

// NewIVF makes empty lists, one per centroid.
func NewIVF(centroids []float32, dim int) (*IVF, error) {
	m := knn.FloatMatrix(centroids, dim)
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("making inverted lists: %w", err)
	}
	v := &IVF{dim: dim, lists: m.Rows}
	if err := check("making inverted lists", C.ps_ivf_new(C.int32_t(dim), C.int32_t(m.Rows), floats(centroids), &v.handle)); err != nil {
		return nil, err
	}
	return v, nil
}

// Empty implements [knn.Lists].
func (v *IVF) Empty() (knn.Lists, error) {
	empty := &IVF{dim: v.dim, lists: v.lists}
	if err := check("making inverted lists", C.ps_ivf_like(v.handle, &empty.handle)); err != nil {
		return nil, err
	}
	return empty, nil
}

// Close implements [knn.Lists].
func (v *IVF) Close() {
	C.ps_ivf_free(v.handle)
	v.handle = nil
}

// Add implements [knn.Lists].
func (v *IVF) Add(rows, lists []int64) error {
	if len(rows) != len(lists) {
		return fmt.Errorf("adding %d rows to %d lists", len(rows), len(lists))
	}
	for i, l := range lists {
		if l < 0 || l >= int64(v.lists) {
			return fmt.Errorf("adding row %d to list %d of %d", rows[i], l, v.lists)
		}
	}
	return check("adding to inverted lists", C.ps_ivf_add(v.handle, C.int64_t(len(rows)), longs(rows), longs(lists)))
}

// Merge implements [knn.Lists].
func (v *IVF) Merge(other knn.Lists) error {
	o, ok := other.(*IVF)
	if !ok {
		return errors.New("merging inverted lists of another engine")
	}
	return check("merging inverted lists", C.ps_ivf_merge(v.handle, o.handle))
}

// Probe implements [knn.Lists].
func (v *IVF) Probe(q []float32, probes int) ([]int64, error) {
	if len(q) != v.dim || probes < 1 {
		return nil, fmt.Errorf("ranking %d lists of %d dimensions for a query of %d values", probes, v.dim, len(q))
	}
	lists := make([]int64, min(probes, v.lists))
	if err := check("ranking lists", C.ps_ivf_probe(v.handle, floats(q), C.int32_t(len(lists)), longs(lists))); err != nil {
		return nil, err
	}
	return lists, nil
}

// Search implements [knn.Lists].
func (v *IVF) Search(m knn.Matrix, q []float32, k int, lists []int64) ([]knn.Hit, error) {
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("searching inverted lists: %w", err)
	}
	if len(q) != v.dim || m.Dim != v.dim || k < 1 {
		return nil, fmt.Errorf("searching inverted lists of %d dimensions for %d rows of %d values with a query of %d", v.dim, k, m.Dim, len(q))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	scores, ids := make([]float32, k), make([]int64, k)
	text := C.ps_ivf_search(v.handle, pinned(&pin, m), floats(q), C.int32_t(len(lists)), longs(lists), C.int32_t(k),
		floats(scores), longs(ids))
	if err := check("searching inverted lists", text); err != nil {
		return nil, err
	}
	return hits(scores, ids), nil
}

// Scan implements [knn.Searcher].
func (Engine) Scan(m knn.Matrix, from int, q []float32, k int) ([]knn.Hit, error) {
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("scanning rows: %w", err)
	}
	if len(q) != m.Dim || k < 1 || from < 0 || from > m.Rows {
		return nil, fmt.Errorf("scanning rows %d..%d of %d values for %d with a query of %d values", from, m.Rows, m.Dim, k, len(q))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	scores, ids := make([]float32, k), make([]int64, k)
	text := C.ps_scan(pinned(&pin, m), C.int64_t(from), floats(q), C.int32_t(k), floats(scores), longs(ids))
	if err := check("scanning rows", text); err != nil {
		return nil, err
	}
	return hits(scores, ids), nil
}
