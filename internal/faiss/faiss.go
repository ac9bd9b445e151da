// Package faiss binds libfaiss: k-means ([KMeans]), and inverted lists ([IVF]) with the scan of what no list holds yet
// ([Scan]).
//
// In go float32 centroids and queries, and float16 rows that the caller keeps; out come row numbers and inner products.
// FAISS keeps the lists, ranks them by a navigable graph where there are many, and keeps the best hits. The caller brings the function that compares a query with
// a float16 row ([Similarity]).
//
// Guarantees:
//
//  1. A C++ exception becomes an error. Handles are closed explicitly, and [Live] counts those that are not.
//  2. Row numbers are int64, and -1 from FAISS (no such neighbour) is left out of the hits.
//
// The C++ code runs on the calling thread. OpenMP is held to one thread a call, as Go calls from ever changing threads
// and each would get a team of its own.
package faiss

/*
#cgo CXXFLAGS: -O3 -std=c++17 -Wno-psabi
#cgo LDFLAGS: -lfaiss -lopenblas -lgomp
#include "faiss.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/pairstream/pairstream/internal/knn"
)

// Similarity is a C function float(const float* query, const uint16_t* row, int dim): the inner product of a query with
// a float16 row. A pointer carries it over, because cgo links the objects of every package alone.
type Similarity unsafe.Pointer

// Live returns the number of C++ handles that were not closed.
func Live() int64 { return int64(C.fs_live_handles()) }

// check turns the text of an exception into an error.
func check(doing string, text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.fs_free_text(text)
	return fmt.Errorf("%s: %w", doing, errors.New(C.GoString(text)))
}

func floats(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }
func longs(x []int64) *C.int64_t  { return (*C.int64_t)(unsafe.SliceData(x)) }

// pinned returns the float16 matrix for C++, which keeps the pointer until the pinner lets go.
func pinned(pin *runtime.Pinner, m knn.Matrix, similarity Similarity) (C.fs_rows, error) {
	if err := m.Check(); err != nil {
		return C.fs_rows{}, err
	}
	if m.Halves == nil {
		return C.fs_rows{}, errors.New("rows are float32: live search wants float16")
	}
	data := unsafe.SliceData(m.Halves)
	pin.Pin(data)
	return C.fs_rows{
		data: (*C.uint16_t)(data), n: C.int64_t(m.Rows), d: C.int32_t(m.Dim), similarity: C.fs_similarity(similarity),
	}, nil
}
