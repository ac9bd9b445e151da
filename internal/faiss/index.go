package faiss

/*
#include "faiss.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/x448/float16"

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

// IVF is a FAISS inverted file by inner product over float16 rows that lie elsewhere: a list holds row numbers, eight
// bytes and one each, and a search is given the matrix. So a million vectors are not held twice.
type IVF struct {
	handle     *C.fs_ivf
	similarity Similarity
	dim, lists int
}

var _ knn.Lists = (*IVF)(nil)

// NewIVF makes empty lists, one per centroid (rows of dim values). Searches compare rows by similarity.
func NewIVF(centroids []float32, dim int, similarity Similarity) (*IVF, error) {
	m := knn.FloatMatrix(centroids, dim)
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("making inverted lists: %w", err)
	}
	halves := make([]uint16, len(centroids))
	for i, x := range centroids {
		halves[i] = float16.Fromfloat32(x).Bits()
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	rows, err := pinned(&pin, knn.HalfMatrix(halves, dim), similarity)
	if err != nil {
		return nil, fmt.Errorf("making inverted lists: %w", err)
	}
	v := &IVF{dim: dim, lists: m.Rows, similarity: similarity}
	if err := check("making inverted lists", C.fs_ivf_new(rows, floats(centroids), &v.handle)); err != nil {
		return nil, err
	}
	return v, nil
}

// Empty implements [knn.Lists].
func (v *IVF) Empty() (knn.Lists, error) {
	empty := &IVF{dim: v.dim, lists: v.lists, similarity: v.similarity}
	if err := check("making inverted lists", C.fs_ivf_like(v.handle, &empty.handle)); err != nil {
		return nil, err
	}
	return empty, nil
}

// Close implements [knn.Lists].
func (v *IVF) Close() {
	C.fs_ivf_free(v.handle)
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
	return check("adding to inverted lists", C.fs_ivf_add(v.handle, C.int64_t(len(rows)), longs(rows), longs(lists)))
}

// Merge implements [knn.Lists].
func (v *IVF) Merge(other knn.Lists) error {
	o, ok := other.(*IVF)
	if !ok {
		return errors.New("merging inverted lists of another engine")
	}
	return check("merging inverted lists", C.fs_ivf_merge(v.handle, o.handle))
}

// Probe implements [knn.Lists].
func (v *IVF) Probe(q []float32, probes int) ([]int64, error) {
	if len(q) != v.dim || probes < 1 {
		return nil, fmt.Errorf("ranking %d lists of %d dimensions for a query of %d values", probes, v.dim, len(q))
	}
	lists := make([]int64, min(probes, v.lists))
	if err := check("ranking lists", C.fs_ivf_probe(v.handle, floats(q), C.int32_t(len(lists)), longs(lists))); err != nil {
		return nil, err
	}
	if none := slices.Index(lists, -1); none >= 0 { // the graph has not come to as many
		lists = lists[:none]
	}
	return lists, nil
}

// Search implements [knn.Lists].
func (v *IVF) Search(m knn.Matrix, q []float32, k int, lists []int64) ([]knn.Hit, error) {
	if len(q) != v.dim || m.Dim != v.dim || k < 1 {
		return nil, fmt.Errorf("searching inverted lists of %d dimensions for %d rows of %d values with a query of %d", v.dim, k, m.Dim, len(q))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	rows, err := pinned(&pin, m, v.similarity)
	if err != nil {
		return nil, fmt.Errorf("searching inverted lists: %w", err)
	}
	scores, ids := make([]float32, k), make([]int64, k)
	text := C.fs_ivf_search(v.handle, rows, floats(q), C.int32_t(len(lists)), longs(lists), C.int32_t(k), floats(scores), longs(ids))
	if err := check("searching inverted lists", text); err != nil {
		return nil, err
	}
	return hits(scores, ids), nil
}

// Scan finds the k rows of [from, m.Rows) that are most similar to the query, best first.
func Scan(m knn.Matrix, from int, q []float32, k int, similarity Similarity) ([]knn.Hit, error) {
	if len(q) != m.Dim || k < 1 || from < 0 || from > m.Rows {
		return nil, fmt.Errorf("scanning rows %d..%d of %d values for %d with a query of %d values", from, m.Rows, m.Dim, k, len(q))
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	rows, err := pinned(&pin, m, similarity)
	if err != nil {
		return nil, fmt.Errorf("scanning rows: %w", err)
	}
	scores, ids := make([]float32, k), make([]int64, k)
	if err := check("scanning rows", C.fs_scan(rows, C.int64_t(from), floats(q), C.int32_t(k), floats(scores), longs(ids))); err != nil {
		return nil, err
	}
	return hits(scores, ids), nil
}
