// Package faiss binds libfaiss: it writes inverted files ([NewIVF]) that any program with FAISS reads. Tests search them
// ([Search]), and compare the k-means of knn/cpu with that of libfaiss ([KMeans]).
//
// A C++ exception becomes an error. The C++ code runs on the calling thread.
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
	"unsafe"
)

// check turns the text of an exception into an error.
func check(doing string, text *C.char) error {
	if text == nil {
		return nil
	}
	defer C.fs_free_text(text)
	return fmt.Errorf("%s: %w", doing, errors.New(C.GoString(text)))
}

func floats(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }
