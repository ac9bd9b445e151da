// The activations of the feed-forward layers.
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

constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kDensity = 0.39894228040143268f;  // of the normal distribution at 0

// Every function here works on whole blocks, so that an element's bits do not depend on its place: compilers treat what
// is left over after the last full vector differently.
constexpr int64_t kBlock = 64;

PS_INLINE void gelu_body(const float *x, float *y, int64_t blocks) {
  for (int64_t i = 0; i < blocks * kBlock; i++) {
    y[i] = 0.5f * x[i] * (1.0f + error_function(x[i] * kSqrtHalf));
  }
}
PS_VECTORISED(gelu, (const float *x, float *y, int64_t blocks), (x, y, blocks))

PS_INLINE void gelu_back_body(const float *x, const float *g, float *d, int64_t blocks) {
  for (int64_t i = 0; i < blocks * kBlock; i++) {
    float below = 0.5f * (1.0f + error_function(x[i] * kSqrtHalf));
    float density = kDensity * exponential(-0.5f * x[i] * x[i]);
    d[i] = g[i] * (below + x[i] * density);
  }
}
PS_VECTORISED(gelu_back, (const float *x, const float *g, float *d, int64_t blocks), (x, g, d, blocks))

// PS_INLINE sigmoid_1702 is 1 / (1 + e^(-1.702 x)), without overflow for any x.
PS_INLINE float sigmoid_1702(float x) {
  float e = exponential(x < 0 ? 1.702f * x : -1.702f * x);
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}

PS_INLINE void quick_gelu_body(const float *x, float *y, int64_t blocks) {
  for (int64_t i = 0; i < blocks * kBlock; i++) {
    y[i] = x[i] * sigmoid_1702(x[i]);
  }
}
PS_VECTORISED(quick_gelu, (const float *x, float *y, int64_t blocks), (x, y, blocks))

PS_INLINE void quick_gelu_back_body(const float *x, const float *g, float *d, int64_t blocks) {
  for (int64_t i = 0; i < blocks * kBlock; i++) {
    float s = sigmoid_1702(x[i]);
    d[i] = g[i] * (s + 1.702f * x[i] * s * (1.0f - s));
  }
}
PS_VECTORISED(quick_gelu_back, (const float *x, const float *g, float *d, int64_t blocks), (x, g, d, blocks))

constexpr int64_t kBlocksAtOnce = 256;

// in_blocks calls f(from, blocks) over all of n elements; what fills no block goes through tail, which copies it into
// one.
template <typename F, typename T>
void in_blocks(int64_t n, const F &f, const T &tail) {
  const int64_t blocks = n / kBlock, parts = (blocks + kBlocksAtOnce - 1) / kBlocksAtOnce;
  parallel(parts + 1, [&](int64_t part) {
    if (part < parts) {
      f(part * kBlocksAtOnce * kBlock, std::min(kBlocksAtOnce, blocks - part * kBlocksAtOnce));
    } else if (n % kBlock != 0) {
      tail(blocks * kBlock, n % kBlock);
    }
  });
}

at::Tensor forward(const at::Tensor &x, bool quick) {
  at::Tensor y = at::empty_like(x);
  const auto one = quick ? quick_gelu : gelu;
  const float *xp = x.data_ptr<float>();
  float *yp = y.data_ptr<float>();
  in_blocks(
      x.numel(), [&](int64_t from, int64_t blocks) { one(xp + from, yp + from, blocks); },
      [&](int64_t from, int64_t n) {
        float in[kBlock] = {}, out[kBlock];
        std::copy(xp + from, xp + from + n, in);
        one(in, out, 1);
        std::copy(out, out + n, yp + from);
      });
  return y;
}

struct ActivationFunction : torch::autograd::Function<ActivationFunction> {
  static at::Tensor forward(AutogradContext *ctx, const at::Tensor &x, bool quick) {
    ctx->save_for_backward({x});
    ctx->saved_data["quick"] = quick;
    return ::forward(x, quick);
  }

  static variable_list backward(AutogradContext *ctx, const variable_list &grads) {
    const at::Tensor x = ctx->get_saved_variables()[0], g = grads[0].contiguous();
    const auto one = ctx->saved_data["quick"].toBool() ? quick_gelu_back : gelu_back;
    at::Tensor d = at::empty_like(x);
    const float *xp = x.data_ptr<float>(), *gp = g.data_ptr<float>();
    float *dp = d.data_ptr<float>();
    in_blocks(
        x.numel(), [&](int64_t from, int64_t blocks) { one(xp + from, gp + from, dp + from, blocks); },
        [&](int64_t from, int64_t n) {
          float in[kBlock] = {}, gradient[kBlock] = {}, out[kBlock];
          std::copy(xp + from, xp + from + n, in);
          std::copy(gp + from, gp + from + n, gradient);
          one(in, gradient, out, 1);
          std::copy(out, out + n, dp + from);
        });
    return {d, at::Tensor()};
  }
};

}  // namespace

ps_result ps_gelu(ps_tensor *handle, int quick) {
  return result([&] {
    const at::Tensor x = ref(handle).contiguous();
    if (!own_kernels(x)) {
      return quick ? at::mul(x, at::sigmoid(at::mul(x, 1.702))) : at::gelu(x);
    }
    if (!c10::GradMode::is_enabled()) {
      return forward(x, quick != 0);
    }
    return ActivationFunction::apply(x, quick != 0);
  });
}
