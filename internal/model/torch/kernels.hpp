// Whose kernels compute.
#ifndef PAIRSTREAM_TORCH_KERNELS_HPP
#define PAIRSTREAM_TORCH_KERNELS_HPP

#include <ATen/ATen.h>

namespace pairstream {

// own_kernels says whether this package's kernels compute with tensors like t: float32 on the CPU, unless the calling
// thread's worker is portable. libtorch's operations compute with all others.
bool own_kernels(const at::Tensor &t);

// own_bfloat16 says whether they take t, of bfloat16 on the CPU, as a factor of a product.
bool own_bfloat16(const at::Tensor &t);

// fits says whether they take t as it lies in memory.
inline bool fits(const at::Tensor &t) { return own_kernels(t) && t.is_contiguous(); }

}  // namespace pairstream

#endif
