package torch

// #include "shim.h"
import "C"

// A negative dimension counts from the last.

func (s *Scope) along(op C.int, name string, x *Tensor, dim int, a, b int64) *Tensor {
	return s.own(name, C.ps_along(op, x.h(), C.int64_t(dim), C.int64_t(a), C.int64_t(b)))
}

func (s *Scope) shaped(op C.int, name string, x *Tensor, shape []int64) *Tensor {
	dims, rank := dimsOf(shape)
	return s.own(name, C.ps_reshape(op, x.h(), dims, rank))
}

// Reshape gives the elements another shape; one size may be -1.
func (s *Scope) Reshape(x *Tensor, shape ...int64) *Tensor {
	return s.shaped(C.PS_RESHAPE, "reshape", x, shape)
}

// Permute reorders the dimensions.
func (s *Scope) Permute(x *Tensor, dims ...int64) *Tensor {
	return s.shaped(C.PS_PERMUTE, "permute", x, dims)
}

// Expand repeats dimensions of size 1 without copying; -1 leaves a size as it is.
func (s *Scope) Expand(x *Tensor, shape ...int64) *Tensor {
	return s.shaped(C.PS_EXPAND, "expand", x, shape)
}

// Transpose swaps two dimensions.
func (s *Scope) Transpose(x *Tensor, d0, d1 int) *Tensor {
	return s.along(C.PS_TRANSPOSE, "transpose", x, d0, int64(d1), 0)
}

// Unsqueeze inserts a dimension of size 1.
func (s *Scope) Unsqueeze(x *Tensor, dim int) *Tensor {
	return s.along(C.PS_UNSQUEEZE, "unsqueeze", x, dim, 0, 0)
}

// Squeeze removes a dimension of size 1.
func (s *Scope) Squeeze(x *Tensor, dim int) *Tensor {
	return s.along(C.PS_SQUEEZE, "squeeze", x, dim, 0, 0)
}

// Select returns the slice at index i of a dimension, which disappears.
func (s *Scope) Select(x *Tensor, dim int, i int64) *Tensor {
	return s.along(C.PS_SELECT, "select", x, dim, i, 0)
}

// Narrow returns the slice [start, start+n) of a dimension.
func (s *Scope) Narrow(x *Tensor, dim int, start, n int64) *Tensor {
	return s.along(C.PS_NARROW, "narrow", x, dim, start, n)
}

// Sum adds up along a dimension, and keeps it with size 1 when keep is set.
func (s *Scope) Sum(x *Tensor, dim int, keep bool) *Tensor {
	return s.along(C.PS_SUM, "sum", x, dim, flag(keep), 0)
}

// Mean averages along a dimension, and keeps it with size 1 when keep is set.
func (s *Scope) Mean(x *Tensor, dim int, keep bool) *Tensor {
	return s.along(C.PS_MEAN, "mean", x, dim, flag(keep), 0)
}

func flag(on bool) int64 {
	if on {
		return 1
	}
	return 0
}

// SumAll returns the sum of all elements.
func (s *Scope) SumAll(x *Tensor) *Tensor { return s.unary(C.PS_SUM_ALL, "sum_all", x, 0, 0) }

// MeanAll returns the mean of all elements.
func (s *Scope) MeanAll(x *Tensor) *Tensor { return s.unary(C.PS_MEAN_ALL, "mean_all", x, 0, 0) }

// ArgMax returns the index of the largest element along a dimension, which disappears.
func (s *Scope) ArgMax(x *Tensor, dim int) *Tensor {
	return s.along(C.PS_ARGMAX, "argmax", x, dim, 0, 0)
}

// TopK returns the k largest elements along a dimension, largest first, and their indices.
func (s *Scope) TopK(x *Tensor, k int64, dim int) (values, indices *Tensor) {
	r := C.ps_topk(x.h(), C.int64_t(k), C.int64_t(dim))
	check("topk", r.error)
	return s.add(r.first), s.add(r.second)
}

// IndexSelect takes the slices of a dimension that index (Int64, one dimension) names.
func (s *Scope) IndexSelect(x *Tensor, dim int, index *Tensor) *Tensor {
	return s.own("index_select", C.ps_index(C.PS_INDEX_SELECT, x.h(), C.int64_t(dim), index.h()))
}

// Gather takes one element along a dimension for each element of index (Int64).
func (s *Scope) Gather(x *Tensor, dim int, index *Tensor) *Tensor {
	return s.own("gather", C.ps_index(C.PS_GATHER, x.h(), C.int64_t(dim), index.h()))
}

// Cat joins tensors along a dimension.
func (s *Scope) Cat(dim int, xs ...*Tensor) *Tensor {
	if len(xs) == 0 {
		panic(&Error{Op: "cat", Reason: "no tensors"})
	}
	handles := handlesOf(xs)
	return s.own("cat", C.ps_cat(&handles[0], C.int(len(handles)), C.int64_t(dim)))
}
