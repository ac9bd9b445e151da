package torch

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Scope makes tensors and frees them when it ends. It is valid in the function that received it.
type Scope struct {
	worker *Worker
	made   []*Tensor
	ended  bool
}

// run calls fn, turns a failed operation into an error and ends the scope.
func (s *Scope) run(fn func(*Scope) error) (err error) {
	defer func() {
		s.end()
		if failed := recover(); failed != nil {
			torchError, ok := failed.(*Error)
			if !ok {
				panic(failed)
			}
			err = torchError
		}
	}()
	return fn(s)
}

func (s *Scope) end() {
	s.ended = true
	handles := make([]*C.ps_tensor, 0, len(s.made))
	for _, t := range s.made {
		if !t.kept && t.handle != nil {
			handles = append(handles, t.handle)
			t.handle = nil
		}
	}
	s.made = nil
	freeHandles(handles)
}

func freeHandles(handles []*C.ps_tensor) {
	if len(handles) == 0 {
		return
	}
	C.ps_free(&handles[0], C.int(len(handles)))
	live.Add(-int64(len(handles)))
}

// Nest runs fn with an inner scope, and frees fn's tensors when fn returns. It returns an error of an operation in fn,
// instead of passing it on as a panic.
func (s *Scope) Nest(fn func(*Scope) error) error {
	inner := &Scope{worker: s.worker}
	return inner.run(fn)
}

// Precision returns the type of the factors in linear layers and attention.
func (s *Scope) Precision() DType { return s.worker.Precision() }

// Multiplier returns the library that multiplies matrices on the CPU; see [WorkerOptions].
func (s *Scope) Multiplier() string { return s.worker.Multiplier() }

// NoGrad runs fn without recording for gradients.
func (s *Scope) NoGrad(fn func()) {
	before := C.ps_set_grad(0)
	defer C.ps_set_grad(before)
	fn()
}

// InFloat32 runs fn with products in float32, whatever the worker's precision.
func (s *Scope) InFloat32(fn func()) {
	before := C.ps_set_precision(C.PS_IN_FLOAT32)
	defer C.ps_set_precision(before)
	fn()
}

// Keep gives t to the caller, who frees it with [Tensor.Free]. It returns t.
func (s *Scope) Keep(t *Tensor) *Tensor {
	t.kept = true
	return t
}

// Adopt makes s the owner of a tensor that was kept, for instance by an inner scope. It returns t.
func (s *Scope) Adopt(t *Tensor) *Tensor {
	t.kept = false
	s.made = append(s.made, t)
	return t
}

// own takes over the tensor of an operation.
func (s *Scope) own(op string, r C.ps_result) *Tensor {
	check(op, r.error)
	return s.add(r.tensor)
}

func (s *Scope) add(handle *C.ps_tensor) *Tensor {
	if s.ended {
		panic("torch: a scope was used after its end")
	}
	live.Add(1)
	t := &Tensor{handle: handle}
	s.made = append(s.made, t)
	return t
}

// LengthStep returns the number that lengths of sequences should be multiples of: 8 on a GPU, whose attention kernels
// want masks with such rows, and 1 on the CPU.
func (s *Scope) LengthStep() int {
	if o := s.worker.options; o.Portable || o.Device != "cpu" {
		return 8
	}
	return 1
}

// Seed seeds the generator of [Scope.Dropout]. On the CPU the generator is this worker's alone, on other devices the
// whole process's.
func (s *Scope) Seed(seed uint64) { check("seed", C.ps_seed(C.uint64_t(seed))) }

// Float32s makes a tensor of a copy of data.
func (s *Scope) Float32s(data []float32, shape ...int64) *Tensor {
	return fromSlice(s, data, Float32, shape)
}

// Float64s makes a tensor of a copy of data.
func (s *Scope) Float64s(data []float64, shape ...int64) *Tensor {
	return fromSlice(s, data, Float64, shape)
}

// Int64s makes a tensor of a copy of data.
func (s *Scope) Int64s(data []int64, shape ...int64) *Tensor { return fromSlice(s, data, Int64, shape) }

// Bools makes a tensor of a copy of data.
func (s *Scope) Bools(data []bool, shape ...int64) *Tensor { return fromSlice(s, data, Bool, shape) }

func fromSlice[T float32 | float64 | int64 | bool](s *Scope, data []T, dtype DType, shape []int64) *Tensor {
	n, err := elements(shape)
	if err == nil && n != int64(len(data)) {
		err = fmt.Errorf("%d values for shape %v", len(data), shape)
	}
	if err != nil {
		panic(&Error{Op: "making a " + dtype.String() + " tensor", Reason: err.Error()})
	}
	var first unsafe.Pointer
	if len(data) > 0 {
		first = unsafe.Pointer(&data[0])
	}
	dims, rank := dimsOf(shape)
	return s.own("making a tensor", C.ps_from_data(first, C.int(dtype), dims, rank, s.worker.device))
}

// elements returns the product of a shape, checked for overflow.
func elements(shape []int64) (int64, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > 0 && n > (1<<62)/d {
			return 0, errors.New("impossible shape " + fmt.Sprint(shape))
		}
		n *= d
	}
	return n, nil
}

func dimsOf(shape []int64) (*C.int64_t, C.int) {
	if len(shape) == 0 {
		return nil, 0
	}
	return (*C.int64_t)(unsafe.Pointer(&shape[0])), C.int(len(shape))
}

// Zeros makes a tensor of zeros.
func (s *Scope) Zeros(dtype DType, shape ...int64) *Tensor { return s.Full(0, dtype, shape...) }

// Full makes a tensor with every element v.
func (s *Scope) Full(v float64, dtype DType, shape ...int64) *Tensor {
	dims, rank := dimsOf(shape)
	return s.own("full", C.ps_full(C.double(v), C.int(dtype), dims, rank, s.worker.device))
}

// Arange makes the Int64 tensor 0, 1, ... n-1.
func (s *Scope) Arange(n int64) *Tensor {
	return s.own("arange", C.ps_arange(C.int64_t(n), s.worker.device))
}
