package faiss

/*
#include <stdlib.h>
#include "faiss.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// IVF is an inverted file in memory: an IndexIVFScalarQuantizer of float16 rows, scored by the inner product. It is for
// one goroutine at a time.
type IVF struct {
	ivf   *C.fs_ivf
	dim   int
	lists int
}

// NewIVF makes an inverted file without rows. Centroids has dim values for each list. nprobe is the default number of
// lists that a search visits.
func NewIVF(centroids []float32, dim, probes int) (*IVF, error) {
	if dim < 1 || len(centroids) == 0 || len(centroids)%dim != 0 || probes < 1 {
		return nil, fmt.Errorf("making an inverted file: %d values of centroids in %d dimensions, %d probes", len(centroids), dim, probes)
	}
	f := &IVF{dim: dim, lists: len(centroids) / dim}
	text := C.fs_ivf_new(C.int32_t(dim), C.int32_t(f.lists), floats(centroids), C.int32_t(probes), &f.ivf)
	if err := check("making an inverted file", text); err != nil {
		return nil, err
	}
	runtime.AddCleanup(f, func(ivf *C.fs_ivf) { C.fs_ivf_free(ivf) }, f.ivf)
	return f, nil
}

// Add puts rows, dim values each, into a list. Searches return their ids.
func (f *IVF) Add(list int, rows []float32, ids []int64) error {
	if list < 0 || list >= f.lists || len(rows) != len(ids)*f.dim {
		return fmt.Errorf("adding to an inverted file: %d values and %d ids to list %d of %d", len(rows), len(ids), list, f.lists)
	}
	if len(ids) == 0 {
		return nil
	}
	text := C.fs_ivf_add(f.ivf, C.int32_t(list), C.int64_t(len(ids)), floats(rows), (*C.int64_t)(unsafe.SliceData(ids)))
	runtime.KeepAlive(f)
	return check("adding to an inverted file", text)
}

// Write writes a file for faiss.read_index.
func (f *IVF) Write(path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	text := C.fs_ivf_write(f.ivf, name)
	runtime.KeepAlive(f)
	return check("writing an inverted file", text)
}

// Search reads an index and returns the k best ids for each row of x, with -1 where there are fewer.
func Search(path string, x []float32, dim, k int) (ids []int64, scores []float32, err error) {
	if dim < 1 || k < 1 || len(x) == 0 || len(x)%dim != 0 {
		return nil, nil, errors.New("searching an index: want k >= 1 and whole rows")
	}
	n := len(x) / dim
	ids, scores = make([]int64, n*k), make([]float32, n*k)
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	text := C.fs_search(name, C.int64_t(n), floats(x), C.int32_t(k), floats(scores), (*C.int64_t)(unsafe.SliceData(ids)))
	return ids, scores, check("searching an index", text)
}
