package cpu

/*
#include "cpu.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// lists are inverted lists whose entries are 8-bit codes: dim + 8 bytes a row. A search scans codes, and compares the
// query with the float16 rows of the closest ones. Lists share parts with the lists that they extend.
type lists struct {
	handle *C.ps_lists
	dim, n int
}

var _ knn.Lists = (*lists)(nil)

// NewLists implements [knn.Searcher].
func (Engine) NewLists(centroids []float32, dim int) (knn.Lists, error) {
	m := knn.FloatMatrix(centroids, dim)
	if err := m.Check(); err != nil {
		return nil, fmt.Errorf("making inverted lists: %w", err)
	}
	l := &lists{dim: dim, n: m.Rows}
	return l, check("making inverted lists", C.ps_lists_new(floats(centroids), C.int64_t(m.Rows), C.int32_t(dim), &l.handle))
}

// Extended implements [knn.Lists].
func (l *lists) Extended(m knn.Matrix, first int, numbers []int32) (knn.Lists, error) {
	if err := rowsOf(m, l.dim); err != nil {
		return nil, fmt.Errorf("extending inverted lists: %w", err)
	}
	if first < 0 || first+len(numbers) > m.Rows {
		return nil, fmt.Errorf("extending inverted lists by rows %d..%d of %d", first, first+len(numbers), m.Rows)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	longer := &lists{dim: l.dim, n: l.n}
	err := check("extending inverted lists", C.ps_lists_extended(l.handle, pinned(&pin, m), C.int64_t(first), C.int64_t(len(numbers)), ints(numbers), &longer.handle))
	if err != nil {
		return nil, err
	}
	return longer, nil
}

// Close implements [knn.Lists].
func (l *lists) Close() {
	C.ps_lists_free(l.handle)
	l.handle = nil
}

// Probe implements [knn.Lists].
func (l *lists) Probe(q []float32, probes int) ([]int64, error) {
	if len(q) != l.dim || probes < 1 {
		return nil, fmt.Errorf("ranking %d lists of %d dimensions for a query of %d values", probes, l.dim, len(q))
	}
	out := make([]int64, min(probes, l.n))
	if err := check("ranking lists", C.ps_lists_probe(l.handle, floats(q), C.int32_t(len(out)), longs(out))); err != nil {
		return nil, err
	}
	return out, nil
}

// Search implements [knn.Lists].
func (l *lists) Search(m knn.Matrix, from int, q []float32, k, probes int) ([]knn.Hit, error) {
	if err := checkSearch(m, from, q, k); err != nil {
		return nil, err
	}
	if m.Dim != l.dim || probes < 1 {
		return nil, fmt.Errorf("searching %d inverted lists of %d dimensions for rows of %d values", probes, l.dim, m.Dim)
	}
	hits := make([]knn.Hit, k)
	var found C.int32_t
	text := C.ps_lists_search(l.handle, halves(m), C.int64_t(m.Rows), C.int64_t(from), floats(q),
		C.int32_t(min(probes, l.n)), C.int32_t(k), hitsOf(hits), &found)
	return hits[:found], check("searching inverted lists", text)
}

// Scan implements [knn.Searcher].
func (Engine) Scan(m knn.Matrix, from int, q []float32, k int) ([]knn.Hit, error) {
	if err := checkSearch(m, from, q, k); err != nil {
		return nil, err
	}
	hits := make([]knn.Hit, k)
	var found C.int32_t
	text := C.ps_scan(halves(m), C.int64_t(m.Rows), C.int32_t(m.Dim), C.int64_t(from), floats(q), C.int32_t(k), hitsOf(hits), &found)
	return hits[:found], check("scanning rows", text)
}

// checkSearch verifies the arguments of a search.
func checkSearch(m knn.Matrix, from int, q []float32, k int) error {
	if err := rowsOf(m, len(q)); err != nil {
		return fmt.Errorf("searching: %w", err)
	}
	if k < 1 || from < 0 || from > m.Rows {
		return fmt.Errorf("searching rows %d..%d of %d values for %d", from, m.Rows, m.Dim, k)
	}
	return nil
}

// rowsOf verifies that m has float16 rows of a width.
func rowsOf(m knn.Matrix, dim int) error {
	if err := m.Check(); err != nil {
		return err
	}
	if m.Halves == nil {
		return errors.New("rows are float32: live search wants float16")
	}
	if m.Dim != dim {
		return fmt.Errorf("rows have %d values, want %d", m.Dim, dim)
	}
	return nil
}

func halves(m knn.Matrix) *C.uint16_t { return (*C.uint16_t)(unsafe.SliceData(m.Halves)) }

// hitsOf returns hits for C++: a ps_hit is a knn.Hit.
func hitsOf(hits []knn.Hit) *C.ps_hit { return (*C.ps_hit)(unsafe.Pointer(unsafe.SliceData(hits))) }

var _ = [1]struct{}{}[unsafe.Sizeof(knn.Hit{})-unsafe.Sizeof(C.ps_hit{})]
