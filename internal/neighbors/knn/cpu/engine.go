// Package cpu finds the exact neighbours and clusters of a group on the processor, with C++ kernels of its own.
//
// It takes matrices of rows and parameters, and returns the positions that internal/neighbors/knn defines. The kernels
// walk over tiles of V V^T and V T^T, never hold a D x D matrix, and decide by the canonical scores of
// internal/neighbors/knn.
//
// The engine is both fast and exact. It finds candidates with rows rounded to 16-bit fixed point, whose dot products
// are exact integers and twice as fast as those of float32. The rows' measured residuals bound the rounding error of an
// integer product (Cauchy-Schwarz). The canonical float64 score decides the cases that the bound leaves open. V V^T is
// symmetric, so only half of it is computed. Membership in T2V_k2 is a count of larger scores against at most k1
// thresholds per text.
//
// Guarantees:
//
//  1. The engine returns the same as package reference, on every processor and with any number of threads.
//  2. A C++ exception becomes an error, and no call leaves a C++ handle behind: [Live] counts them.
//
// The C++ code runs on the calling thread and starts none; the engine spreads tiles over goroutines.
package cpu

/*
#cgo CXXFLAGS: -O3 -std=c++17 -Wno-psabi
#include <stdlib.h>
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

// Engine computes on the processor. Its zero value is ready, and safe for concurrent use.
type Engine struct{}

var (
	_ knn.Engine   = Engine{}
	_ knn.Searcher = Engine{}
)

// Live returns the number of open C++ handles.
func Live() int64 { return int64(C.ps_live_handles()) }

// UseInstructions makes the engine use another instruction set of this processor; "" selects the widest. It exists for
// tests and benchmarks: all give the same results.
func UseInstructions(name string) error {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	if C.ps_select_ops(text) == 0 {
		return fmt.Errorf("choosing instructions %q: this processor has none", name)
	}
	return nil
}

// check turns the text of an exception into an error.
func check(doing string, text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.ps_free_text(text)
	return fmt.Errorf("%s: %w", doing, errors.New(C.GoString(text)))
}

func floats(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }
func ints(x []int32) *C.int32_t   { return (*C.int32_t)(unsafe.SliceData(x)) }
func longs(x []int64) *C.int64_t  { return (*C.int64_t)(unsafe.SliceData(x)) }
func doubles(x []float64) *C.double {
	return (*C.double)(unsafe.SliceData(x))
}

// pinned returns the matrix for C++, which may keep the pointer until the pinner is unpinned.
func pinned(pin *runtime.Pinner, m knn.Matrix) C.ps_rows {
	rows := C.ps_rows{n: C.int64_t(m.Rows), d: C.int32_t(m.Dim)}
	if m.Floats != nil {
		rows.data = unsafe.Pointer(unsafe.SliceData(m.Floats))
	} else {
		rows.data = unsafe.Pointer(unsafe.SliceData(m.Halves))
		rows.half = 1
	}
	pin.Pin(rows.data)
	return rows
}
