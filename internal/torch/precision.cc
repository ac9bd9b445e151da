// Rounding to bfloat16, and which thread does so.
#include "precision.hpp"

#include <algorithm>

#include "guard.hpp"
#include "pool.hpp"
#include "simd.hpp"

using namespace pairstream;

namespace {

constexpr int64_t kPart = 1 << 14;  // elements of one part of the work

thread_local bool in_bfloat16 = false;

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

bool multiplies_bfloat16() { return in_bfloat16; }

at::Tensor rounded(const at::Tensor &x) {
  at::Tensor y = at::empty(x.sizes(), x.options().dtype(at::kBFloat16));
  const float *from = x.data_ptr<float>();
  auto *to = reinterpret_cast<uint16_t *>(y.data_ptr<at::BFloat16>());
  const int64_t n = x.numel();
  parallel((n + kPart - 1) / kPart, [&](int64_t part) {
    round_bfloat16(from + part * kPart, to + part * kPart, std::min(kPart, n - part * kPart));
  });
  return y;
}

}  // namespace pairstream

int ps_set_bfloat16(int on) {
  const bool before = in_bfloat16;
  in_bfloat16 = on != 0;
  return before ? 1 : 0;
}
