// Layer normalisation, of a sum if need be.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>

#include "guard.hpp"
#include "kernels.hpp"
#include "pool.hpp"
#include "precision.hpp"
#include "simd.hpp"

using namespace pairstream;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kNormRows = 64;   // in one part of the work

// Moments are those of a row.
struct Moments {
  float mean, inverse;  // inverse: 1 / deviation
};

// normalize adds other to the row sum, unless it is null, and puts the normalised row into y.
PS_INLINE void normalize_body(float *sum, const float *other, const float *w, const float *b, float eps, int64_t n,
                              float *y, Moments *moments) {
  float sums[kLanes] = {}, squares[kLanes] = {};
  if (other != nullptr) {
    for (int64_t i = 0; i < n; i++) {
      sum[i] += other[i];
    }
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    for (int64_t j = 0; j < std::min(kLanes, n - i); j++) {
      sums[j] += sum[i + j];
    }
  }
  const float mean = std::accumulate(sums, sums + kLanes, 0.0f) / static_cast<float>(n);
  for (int64_t i = 0; i < n; i += kLanes) {
    for (int64_t j = 0; j < std::min(kLanes, n - i); j++) {
      squares[j] += (sum[i + j] - mean) * (sum[i + j] - mean);
    }
  }
  const float variance = std::accumulate(squares, squares + kLanes, 0.0f) / static_cast<float>(n);
  const float inverse = 1.0f / std::sqrt(variance + eps);
  for (int64_t i = 0; i < n; i++) {
    y[i] = (sum[i] - mean) * inverse * w[i] + b[i];
  }
  *moments = {mean, inverse};
}
PS_VECTORISED(normalize,
              (float *sum, const float *other, const float *w, const float *b, float eps, int64_t n, float *y,
               Moments *moments),
              (sum, other, w, b, eps, n, y, moments))

// normalize_back computes the gradient d of a row x from that of its result, g, and adds up those of w and b.
PS_INLINE void normalize_back_body(const float *x, const float *g, const float *w, Moments m, int64_t n, float *d,
                                   float *dw, float *db) {
  float along[kLanes] = {}, total[kLanes] = {};
  for (int64_t i = 0; i < n; i += kLanes) {
    for (int64_t j = 0; j < std::min(kLanes, n - i); j++) {
      const float scaled = g[i + j] * w[i + j];
      along[j] += scaled * (x[i + j] - m.mean) * m.inverse;
      total[j] += scaled;
    }
  }
  const float a = std::accumulate(along, along + kLanes, 0.0f) / static_cast<float>(n);
  const float t = std::accumulate(total, total + kLanes, 0.0f) / static_cast<float>(n);
  for (int64_t i = 0; i < n; i++) {
    const float unit = (x[i] - m.mean) * m.inverse;
    d[i] = m.inverse * (g[i] * w[i] - t - unit * a);
    dw[i] += g[i] * unit;
    db[i] += g[i];
  }
}
PS_VECTORISED(normalize_back,
              (const float *x, const float *g, const float *w, Moments m, int64_t n, float *d, float *dw, float *db),
              (x, g, w, m, n, d, dw, db))

// Result is the normalised sum, the sum itself and each row's moments.
struct Result {
  at::Tensor y, sum, moments;
};

Result forward(const at::Tensor &x, const at::Tensor &other, const at::Tensor &w, const at::Tensor &b, double eps) {
  const int64_t n = x.size(-1), rows = x.numel() / n;
  const bool add = present(other);
  Result r{at::empty_like(x), add ? at::empty_like(x) : x, at::empty({rows, 2}, x.options())};
  const float *xp = x.data_ptr<float>(), *op = add ? other.data_ptr<float>() : nullptr;
  const float *wp = w.data_ptr<float>(), *bp = b.data_ptr<float>();
  float *yp = r.y.data_ptr<float>(), *sp = r.sum.data_ptr<float>();
  auto *mp = reinterpret_cast<Moments *>(r.moments.data_ptr<float>());
  parallel((rows + kNormRows - 1) / kNormRows, [&](int64_t part) {
    for (int64_t i = part * kNormRows; i < std::min(rows, (part + 1) * kNormRows); i++) {
      if (add) {
        std::copy(xp + i * n, xp + (i + 1) * n, sp + i * n);
      }
      normalize(sp + i * n, add ? op + i * n : nullptr, wp, bp, static_cast<float>(eps), n, yp + i * n, mp + i);
    }
  });
  return r;
}

struct NormFunction : torch::autograd::Function<NormFunction> {
  static at::Tensor forward(AutogradContext *ctx, const at::Tensor &x, const at::Tensor &other, const at::Tensor &w,
                            const at::Tensor &b, double eps) {
    Result r = ::forward(x, other, w, b, eps);
    ctx->save_for_backward({r.sum, r.moments, w});
    ctx->saved_data["added"] = present(other);
    return r.y;
  }

  static variable_list backward(AutogradContext *ctx, const variable_list &grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &w = saved[2], g = grads[0].contiguous();
    const int64_t n = x.size(-1), rows = x.numel() / n, parts = (rows + kNormRows - 1) / kNormRows;
    at::Tensor d = at::empty_like(x), sums = at::zeros({2, parts, n}, x.options());
    const float *xp = x.data_ptr<float>(), *gp = g.data_ptr<float>(), *wp = w.data_ptr<float>();
    const auto *mp = reinterpret_cast<const Moments *>(saved[1].data_ptr<float>());
    float *dp = d.data_ptr<float>(), *dw = sums.data_ptr<float>(), *db = dw + parts * n;
    parallel(parts, [&](int64_t part) {
      for (int64_t i = part * kNormRows; i < std::min(rows, (part + 1) * kNormRows); i++) {
        normalize_back(xp + i * n, gp + i * n, wp, mp[i], n, dp + i * n, dw + part * n, db + part * n);
      }
    });
    at::Tensor total = sums.sum(1);
    // Both of the sum's terms have its gradient; neither of the receivers may write into it.
    return {d, ctx->saved_data["added"].toBool() ? d : at::Tensor(), total[0], total[1], at::Tensor()};
  }
};

}  // namespace

ps_result ps_layer_norm(ps_tensor *handle, ps_tensor *other_handle, ps_tensor *weight, ps_tensor *bias, double eps) {
  return result([&] {
    const at::Tensor x = wide(ref(handle)).contiguous(), &w = ref(weight), &b = ref(bias);
    const at::Tensor other = other_handle == nullptr ? none() : wide(ref(other_handle)).contiguous();
    TORCH_CHECK(w.dim() == 1 && b.sizes() == w.sizes() && x.dim() > 0 && x.size(-1) == w.size(0) && w.size(0) > 0,
                "rows of ", x.sizes(), ", weight ", w.sizes(), " and bias ", b.sizes(), " do not fit");
    TORCH_CHECK(!present(other) || other.sizes() == x.sizes(), "adding ", other.sizes(), " to ", x.sizes());
    if (!fits(x) || !fits(w) || !fits(b) || (present(other) && !fits(other))) {
      return at::layer_norm(present(other) ? at::add(x, other) : x, w.sizes(), w, b, eps);
    }
    if (!c10::GradMode::is_enabled()) {
      return forward(x, other, w, b, eps).y;
    }
    return NormFunction::apply(x, other, w, b, eps);
  });
}
