package torch

// #include "shim.h"
import "C"

// Max returns the largest elements along a dimension, which disappears.
func (s *Scope) Max(x *Tensor, dim int) *Tensor {
	return s.own("max", C.ps_max(x.h(), C.int64_t(dim)))
}

// NonZero lists the indices of the nonzero elements: Int64 [found, dimensions]. Their order is that of a contiguous
// tensor in memory. On a device other than the CPU it waits for the result, whose size is unknown before.
func (s *Scope) NonZero(x *Tensor) *Tensor { return s.own("nonzero", C.ps_nonzero(x.h())) }

// IndexFill sets the slices of a dimension that index (Int64, one dimension) names to v, in place. It records nothing for
// gradients.
func (t *Tensor) IndexFill(dim int, index *Tensor, v float64) {
	check("index_fill", C.ps_index_fill(t.h(), C.int64_t(dim), index.h(), C.double(v)))
}

// IndexAdd adds slice i of values to the slice index[i] (Int64, one dimension) of a dimension, in place. It records
// nothing for gradients. An index may occur more than once.
func (t *Tensor) IndexAdd(dim int, index, values *Tensor) {
	check("index_add", C.ps_index_add(t.h(), C.int64_t(dim), index.h(), values.h()))
}
