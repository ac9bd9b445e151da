package torch

// #include "shim.h"
import "C"

import "unsafe"

// Tensor is a handle on a libtorch tensor. See [Scope] for who frees it.
type Tensor struct {
	handle *C.ps_tensor
	kept   bool
}

// h returns the native handle. It panics for a freed tensor, instead of a crash in C++.
func (t *Tensor) h() *C.ps_tensor {
	if t.handle == nil {
		panic("torch: a tensor was used after it was freed")
	}
	return t.handle
}

// Free frees a kept tensor. Freeing it twice does nothing.
func (t *Tensor) Free() {
	if t == nil || t.handle == nil {
		return
	}
	freeHandles([]*C.ps_tensor{t.handle})
	t.handle = nil
}

// Shape returns the size of each dimension.
func (t *Tensor) Shape() []int64 {
	n := int(C.ps_dim(t.h()))
	shape := make([]int64, n)
	if n > 0 {
		C.ps_shape(t.h(), (*C.int64_t)(unsafe.Pointer(&shape[0])))
	}
	return shape
}

// Size returns the size of one dimension; a negative one counts from the last.
func (t *Tensor) Size(dim int) int64 {
	shape := t.Shape()
	if dim < 0 {
		dim += len(shape)
	}
	return shape[dim]
}

// Numel returns the number of elements.
func (t *Tensor) Numel() int64 {
	n := int64(1)
	for _, d := range t.Shape() {
		n *= d
	}
	return n
}

// DType returns the type of the elements.
func (t *Tensor) DType() DType { return DType(C.ps_dtype_of(t.h())) }

// Float32s returns a copy of the elements, row by row, converted when they are of another type.
func (t *Tensor) Float32s() []float32 { return read[float32](t, Float32) }

// Float64s returns a copy of the elements, converted when they are of another type.
func (t *Tensor) Float64s() []float64 { return read[float64](t, Float64) }

// Float16s returns the bits of the elements, row by row, rounded to float16.
func (t *Tensor) Float16s() []uint16 { return read[uint16](t, Float16) }

// Int64s returns a copy of the elements, converted when they are of another type.
func (t *Tensor) Int64s() []int64 { return read[int64](t, Int64) }

// Bools returns a copy of the elements; nonzero elements are true.
func (t *Tensor) Bools() []bool { return read[bool](t, Bool) }

func read[T float32 | float64 | uint16 | int64 | bool](t *Tensor, dtype DType) []T {
	data := make([]T, t.Numel())
	if len(data) > 0 {
		check("reading a tensor", C.ps_read(t.h(), C.int(dtype), unsafe.Pointer(&data[0])))
	}
	return data
}

// Item returns the value of a tensor with one element.
func (t *Tensor) Item() float64 {
	var v C.double
	check("item", C.ps_item(t.h(), &v))
	return float64(v)
}

// SetFloat32s overwrites the elements in place, converted to the tensor's type. It records nothing for gradients.
func (t *Tensor) SetFloat32s(data []float32) { overwrite(t, data, Float32) }

// SetFloat64s overwrites the elements in place, converted to the tensor's type. It records nothing for gradients.
func (t *Tensor) SetFloat64s(data []float64) { overwrite(t, data, Float64) }

// SetFloat16s overwrites the elements in place with the float16 values of these bits, converted to the tensor's type. It
// records nothing for gradients.
func (t *Tensor) SetFloat16s(bits []uint16) { overwrite(t, bits, Float16) }

func overwrite[T float32 | float64 | uint16](t *Tensor, data []T, dtype DType) {
	if n := t.Numel(); n != int64(len(data)) {
		panic(&Error{Op: "writing a tensor", Reason: "wrong number of values"})
	}
	if len(data) > 0 {
		check("writing a tensor", C.ps_write(t.h(), unsafe.Pointer(&data[0]), C.int(dtype)))
	}
}

// CopyFrom overwrites the elements with those of a tensor of the same shape. It records nothing for gradients.
func (t *Tensor) CopyFrom(from *Tensor) { check("copy", C.ps_copy(t.h(), from.h())) }

// RequiresGrad reports whether gradients flow to or through the tensor.
func (t *Tensor) RequiresGrad() bool { return C.ps_requires_grad(t.h()) != 0 }

// SetRequiresGrad makes the tensor a parameter, or a constant again.
func (t *Tensor) SetRequiresGrad(on bool) {
	flag := C.int(0)
	if on {
		flag = 1
	}
	check("set_requires_grad", C.ps_set_requires_grad(t.h(), flag))
}

// ZeroGrad clears the tensor's gradient.
func (t *Tensor) ZeroGrad() {
	handle := t.h()
	check("zero_grad", C.ps_zero_grad(&handle, 1))
}
