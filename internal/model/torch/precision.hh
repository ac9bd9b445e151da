// Rounding to bfloat16, and how a thread computes.
#include "precision.hpp"

#include <algorithm>

#include "gemm.hpp"
#include "guard.hpp"
#include "kernels.hpp"
#include "pool.hpp"
#include "simd.hpp"

using namespace pairstream;

namespace {

thread_local int precision = PS_IN_FLOAT32;
thread_local bool portable = false;

PS_INLINE void round_bfloat16_body(const float *x, uint16_t *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const uint32_t nearest = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    // What is no number must not carry over into the exponent: it would come out as one.
    y[i] = static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FC0u : nearest);
  }
}
PS_VECTORISED(round_bfloat16, (const float *x, uint16_t *y, int64_t n), (x, y, n))

}  // namespace

namespace pairstream {

bool multiplies_bfloat16() { return precision == PS_IN_BFLOAT16; }

bool own_kernels(const at::Tensor &t) { return !portable && t.is_cpu() && t.scalar_type() == at::kFloat; }

bool own_bfloat16(const at::Tensor &t) { return !portable && t.is_cpu() && t.scalar_type() == at::kBFloat16; }

at::Tensor rounded(const at::Tensor &t) {
  const at::Tensor x = t.is_non_overlapping_and_dense() ? t : t.contiguous();
  at::Tensor y = at::empty_strided(x.sizes(), x.strides(), x.options().dtype(at::kBFloat16));
  const float *from = x.data_ptr<float>();
  auto *to = reinterpret_cast<uint16_t *>(y.data_ptr<at::BFloat16>());
  const int64_t n = x.numel();
  parallel((n + kPart - 1) / kPart, [&](int64_t part) {
    round_bfloat16(from + part * kPart, to + part * kPart, std::min(kPart, n - part * kPart));
  });
  return y;
}

at::Tensor to_bfloat16(const at::Tensor &x) {
  if (x.scalar_type() != at::kFloat) {
    return x;
  }
  const at::Tensor y = x.to(at::kBFloat16);
  return x.is_cpu() && !multiplies_in_bfloat16() ? y.to(at::kFloat) : y;
}

}  // namespace pairstream

int ps_set_precision(int to) {
  const int before = precision;
  if ((before == PS_IN_TF32) != (to == PS_IN_TF32)) {
    at::globalContext().setAllowTF32CuBLAS(to == PS_IN_TF32);
  }
  precision = to;
  return before;
}

void ps_set_portable(int on) { portable = on != 0; }
