// Package torch binds the part of libtorch that pairstream needs: tensors, automatic differentiation, AdamW and
// TorchScript modules.
//
// Go slices go in and out, and are copied. Everything between runs inside [Worker.Do], on one operating-system thread, and
// belongs to a [Scope]:
//
//	err := worker.Do(ctx, func(s *torch.Scope) error {
//		x := s.Float32s(pixels, n, 3, 64, 64)
//		loss := s.MeanAll(s.GELU(s.Linear(x, w, nil)))
//		s.Backward(loss)
//		return nil
//	})
//
// Invariants:
//
//  1. A tensor belongs to the scope that made it and is freed when that scope ends, unless [Scope.Keep] gave it to
//     the caller. There are no finalizers. [Live] counts the handles; it is zero once everything is freed.
//  2. A failing operation panics with an [*Error]. [Worker.Do] and [Scope.Nest] turn it into an ordinary error, so
//     that mathematics reads like mathematics. Any other panic is a bug and passes through.
//  3. With Deterministic set, the same calls on the same data give the same bits, on one machine with one number of
//     threads. An operation that cannot guarantee this on the device fails.
//
// A worker of precision BFloat16 trains and infers in mixed precision. Linear layers and attentions round their inputs to
// bfloat16 and sum the products in float32. Everything else stays float32: weights, gradients, moments, normalisations,
// softmax and losses. On the CPU a linear layer returns float32, and attention does not round, since it is a small part
// of the work. On other devices results stay bfloat16 until an operation wants float32, as under PyTorch's autocast. There
// attention is libtorch's scaled_dot_product_attention, from version 2.4 on.
//
// Tensors, scopes and optimisers are for the worker's thread alone: use them inside Do. A Worker itself is safe for
// concurrent use, and runs its jobs one after the other.
//
// The package needs cgo, libtorch 1.13 or later and a C++17 compiler. If libtorch is not in the system's paths, set
// CGO_CXXFLAGS and CGO_LDFLAGS. It loads libtorch_cuda.so when it starts, if that can be found, and is not linked with
// it.
package torch

// No -std here: it would come after, and beat, the one that a newer libtorch's user sets in CGO_CXXFLAGS. C++17 is the
// default of GCC 11 and Clang 16.

// With the tag torchbindings the C++ part is a shared library, one for each version of PyTorch (deploy/torch/bindings.sh).

// #cgo CXXFLAGS: -O3 -DNDEBUG -I/usr/include/torch/csrc/api/include
// #cgo !torchbindings LDFLAGS: -ltorch -ltorch_cpu -lc10 -ldl
// #cgo torchbindings LDFLAGS: -lpairstream_torch
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"strings"
	"sync/atomic"
	"unsafe"
)

// Error names the failed operation and the cause.
type Error struct {
	Op     string
	Reason string
}

func (e *Error) Error() string { return "torch: " + e.Op + ": " + e.Reason }

// failure turns a message of the shim into an error and frees the message. A nil message means success. Several lines
// become one.
func failure(op string, message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(message))
	return &Error{Op: op, Reason: strings.Join(strings.Fields(C.GoString(message)), " ")}
}

// check panics if the shim has a message.
func check(op string, message *C.char) {
	if err := failure(op, message); err != nil {
		panic(err)
	}
}

// DType is the type of a tensor's elements.
type DType int

// The types that this package makes and reads.
const (
	Float32  DType = C.PS_FLOAT32
	Float64  DType = C.PS_FLOAT64
	BFloat16 DType = C.PS_BFLOAT16
	Int64    DType = C.PS_INT64
	Bool     DType = C.PS_BOOL
	Uint8    DType = C.PS_UINT8
	Float16  DType = C.PS_FLOAT16
)

func (d DType) String() string {
	switch d {
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	case BFloat16:
		return "bfloat16"
	case Int64:
		return "int64"
	case Bool:
		return "bool"
	case Uint8:
		return "uint8"
	case Float16:
		return "float16"
	}
	return fmt.Sprintf("dtype(%d)", int(d))
}

var live atomic.Int64

// Live returns the number of native handles (tensors and scripts) that have not been freed.
func Live() int64 { return live.Load() }

// Version returns the version of the libtorch headers used in the build.
func Version() string { return C.GoString(C.ps_version()) }

// Running returns the version of the libtorch that the program runs on: "2.11.0", or "unknown".
func Running() string {
	text := C.ps_built()
	defer C.free(unsafe.Pointer(text))
	return versionIn(C.GoString(text))
}

// versionIn returns the version in libtorch's description of its build.
func versionIn(built string) string {
	_, after, found := strings.Cut(built, "TORCH_VERSION=")
	if !found {
		return "unknown"
	}
	version, _, _ := strings.Cut(after, ",")
	return version
}

// CUDAAvailable reports whether this libtorch has CUDA and finds a device.
func CUDAAvailable() bool { return C.ps_cuda_available() != 0 }

// BLAS names the library that multiplies matrices on the CPU: "MKL", "OpenBLAS ...", or "generic ..." with a path. The
// last is some ten times slower.
func BLAS() string {
	name := C.ps_blas()
	defer C.free(unsafe.Pointer(name))
	return C.GoString(name)
}
