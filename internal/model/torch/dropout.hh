// Dropout.
#include "dropout.hpp"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "guard.hpp"
#include "kernels.hpp"
#include "pool.hpp"
#include "simd.hpp"

using namespace pairstream;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

thread_local uint64_t drawn_seed = 0, drawn = 0;

// mixed is splitmix64's step: every bit of x changes half of the result's.
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The hash is a 32-bit one, since vector units multiply no larger integers: two rounds, with half of the key in each.
PS_INLINE void keep_body(const float *x, float *y, int64_t n, uint32_t a, uint32_t b, uint32_t least, float scale) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t h = static_cast<uint32_t>(i) * 0x9E3779B1u + a;
    h ^= h >> 16;
    h *= 0x7FEB352Du;
    h ^= b;
    h ^= h >> 15;
    h *= 0x846CA68Bu;
    h ^= h >> 16;
    y[i] = h >= least ? x[i] * scale : 0.0f;
  }
}
PS_VECTORISED(keep,
              (const float *x, float *y, int64_t n, uint32_t a, uint32_t b, uint32_t least, float scale),
              (x, y, n, a, b, least, scale))

at::Tensor dropped(const at::Tensor &x, const Draw &draw) {
  at::Tensor y = at::empty_like(x);
  const float *from = x.data_ptr<float>();
  float *to = y.data_ptr<float>();
  const int64_t n = x.numel();
  parallel((n + kPart - 1) / kPart, [&](int64_t part) {
    const int64_t start = part * kPart;
    drop(from + start, to + start, std::min(kPart, n - start), draw, part);
  });
  return y;
}

struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  static at::Tensor forward(AutogradContext *ctx, const at::Tensor &x, const Draw &draw) {
    ctx->saved_data["key"] = static_cast<int64_t>(draw.key);
    ctx->saved_data["share"] = draw.share;
    return dropped(x, draw);
  }

  static variable_list backward(AutogradContext *ctx, const variable_list &grads) {
    const Draw draw{static_cast<uint64_t>(ctx->saved_data["key"].toInt()), ctx->saved_data["share"].toDouble()};
    return {dropped(grads[0].contiguous(), draw), at::Tensor()};
  }
};

}  // namespace

namespace pairstream {

void seed_draws(uint64_t seed) {
  drawn_seed = seed;
  drawn = 0;
}

Draw next_draw(double share) {
  TORCH_CHECK(share >= 0 && share < 1, "dropout of ", share, ", want at least 0 and below 1");
  return {mixed(drawn_seed + mixed(drawn++)), share};
}

void drop(const float *x, float *y, int64_t n, const Draw &draw, int64_t part) {
  const uint64_t key = mixed(draw.key + mixed(static_cast<uint64_t>(part)));
  const uint32_t least = static_cast<uint32_t>(draw.share * 4294967296.0);
  keep(x, y, n, static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32), least,
       static_cast<float>(1.0 / (1.0 - draw.share)));
}

}  // namespace pairstream

char *ps_seed(uint64_t seed) {
  return guarded([&] {
    seed_draws(seed);
    at::manual_seed(seed);  // for what runs on other devices
  });
}

ps_result ps_dropout(ps_tensor *handle, double share) {
  return result([&]() -> at::Tensor {
    const at::Tensor &x = ref(handle);
    const Draw draw = next_draw(share);
    if (!own_kernels(x)) {
      return at::dropout(x, share, true);
    }
    return DropoutFunction::apply(x.contiguous(), draw);
  });
}
