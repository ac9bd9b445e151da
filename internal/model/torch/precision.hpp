// Mixed precision: products of bfloat16 matrices within float32 networks.
#ifndef PAIRSTREAM_TORCH_PRECISION_HPP
#define PAIRSTREAM_TORCH_PRECISION_HPP

#include <ATen/ATen.h>

namespace pairstream {

// multiplies_bfloat16 says whether the calling thread's linear layers and attentions round what they multiply to
// bfloat16. It is theirs to carry over to backward, which may run on another thread.
bool multiplies_bfloat16();

// rounded is a float32 tensor of the CPU as bfloat16: to the nearest, ties to even. A dense tensor keeps its strides.
at::Tensor rounded(const at::Tensor &x);

// to_bfloat16 is x as bfloat16 when it is float32; other types stay. On a CPU without units for bfloat16 it is rounded, and
// float32 again. Gradients pass, on any device.
at::Tensor to_bfloat16(const at::Tensor &x);

// wide is x as float32 when it is bfloat16: for what must not be computed in bfloat16.
inline at::Tensor wide(const at::Tensor &x) { return x.scalar_type() == at::kBFloat16 ? x.to(at::kFloat) : x; }

}  // namespace pairstream

#endif
