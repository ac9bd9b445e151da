// Attention over heads.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "dropout.hpp"
#include "gemm.hpp"
#include "guard.hpp"
#include "kernels.hpp"
#include "pool.hpp"
#include "precision.hpp"
#include "simd.hpp"

using namespace pairstream;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// softmax turns a row of scores into softmax(scores * scale + mask); mask may be null.
PS_INLINE void softmax_body(float *row, const float *mask, int64_t n, float scale) {
  float tops[kLanes], sums[kLanes] = {};
  for (float &t : tops) {
    t = -std::numeric_limits<float>::infinity();
  }
  for (int64_t i = 0; i < n; i++) {
    row[i] = row[i] * scale + (mask == nullptr ? 0.0f : mask[i]);
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    for (int64_t j = 0; j < std::min(kLanes, n - i); j++) {
      tops[j] = row[i + j] > tops[j] ? row[i + j] : tops[j];
    }
  }
  const float top = *std::max_element(tops, tops + kLanes);
  for (int64_t i = 0; i < n; i++) {
    row[i] = exponential(row[i] - top);
  }
  for (int64_t i = 0; i < n; i += kLanes) {
    for (int64_t j = 0; j < std::min(kLanes, n - i); j++) {
      sums[j] += row[i + j];
    }
  }
  const float sum = std::accumulate(sums, sums + kLanes, 0.0f);
  for (int64_t i = 0; i < n; i++) {
    row[i] /= sum;
  }
}
PS_VECTORISED(softmax, (float *row, const float *mask, int64_t n, float scale), (row, mask, n, scale))

// softmax_back turns the gradient g of probabilities p into that of the scores before scale.
PS_INLINE void softmax_back_body(float *g, const float *p, int64_t n, float scale) {
  float dots[kLanes] = {};
  for (int64_t i = 0; i < n; i += kLanes) {
    for (int64_t j = 0; j < std::min(kLanes, n - i); j++) {
      dots[j] += g[i + j] * p[i + j];
    }
  }
  const float dot = std::accumulate(dots, dots + kLanes, 0.0f);
  for (int64_t i = 0; i < n; i++) {
    g[i] = scale * p[i] * (g[i] - dot);
  }
}
PS_VECTORISED(softmax_back, (float *g, const float *p, int64_t n, float scale), (g, p, n, scale))

// Rows is one of query, key and value within a packed tensor: row i of sample b starts at data + b*sample + i*stride.
struct Rows {
  float *data;
  int64_t sample, stride;

  Rows(const at::Tensor &packed, int64_t column)
      : data(packed.data_ptr<float>() + column), sample(packed.size(1) * packed.size(2)), stride(packed.size(2)) {}
  float *head(int64_t b, int64_t column) const { return data + b * sample + column; }
};

// Sizes are those of one attention.
struct Sizes {
  int64_t batch, queries, keys, heads, width;  // width of one head
  float scale;
};

Sizes sizes_of(const at::Tensor &q, const at::Tensor &packed, int64_t heads, double scale, bool self) {
  const int64_t all = self ? packed.size(2) / 3 : packed.size(2) / 2;
  return {packed.size(0), self ? packed.size(1) : q.size(1), packed.size(1), heads, all / heads,
          static_cast<float>(scale)};
}

// MaskRows finds the mask's row for a query; sizes of one mean the same for all.
struct MaskRows {
  const float *data = nullptr;
  int64_t sample = 0, stride = 0;

  explicit MaskRows(const at::Tensor &mask) {
    if (present(mask)) {
      data = mask.data_ptr<float>();
      sample = mask.size(0) == 1 ? 0 : mask.size(1) * mask.size(2);
      stride = mask.size(1) == 1 ? 0 : mask.size(2);
    }
  }
  const float *row(int64_t b, int64_t i) const { return data == nullptr ? nullptr : data + b * sample + i * stride; }
};

// operands are query, key and value of self-attention (packed [batch, length, 3*all]) or of cross-attention (q [batch,
// queries, all], packed [batch, keys, 2*all]).
std::array<Rows, 3> operands(const at::Tensor &q, const at::Tensor &packed, bool self) {
  const int64_t all = self ? packed.size(2) / 3 : packed.size(2) / 2;
  if (self) {
    return {Rows(packed, 0), Rows(packed, all), Rows(packed, 2 * all)};
  }
  return {Rows(q, 0), Rows(packed, 0), Rows(packed, all)};
}

struct AttentionFunction : torch::autograd::Function<AttentionFunction> {
  static at::Tensor forward(AutogradContext *ctx, const at::Tensor &q, const at::Tensor &packed,
                            const at::Tensor &mask, int64_t heads, double scale, const Draw &draw) {
    at::Tensor probabilities;
    at::Tensor out = run(q, packed, mask, heads, scale, draw, &probabilities);
    ctx->save_for_backward({q, packed, probabilities});
    ctx->saved_data["heads"] = heads;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["key"] = static_cast<int64_t>(draw.key);
    ctx->saved_data["share"] = draw.share;
    return out;
  }

  // run computes all; the probabilities are kept for backward, as they are before dropout, when asked for.
  static at::Tensor run(const at::Tensor &q, const at::Tensor &packed, const at::Tensor &mask, int64_t heads,
                        double scale, const Draw &draw, at::Tensor *keep) {
    const bool self = !present(q);
    const Sizes z = sizes_of(q, packed, heads, scale, self);
    const auto [query, key, value] = operands(q, packed, self);
    const MaskRows masks(mask);
    const int64_t all = z.heads * z.width, square = z.queries * z.keys;
    at::Tensor out = at::empty({z.batch, z.queries, all}, packed.options());
    at::Tensor p = at::empty({z.batch, keep == nullptr ? 1 : z.heads, z.queries, z.keys}, packed.options());
    at::Tensor thinned = at::empty({draw.drops() ? z.batch : 0, square}, packed.options());
    const Rows mixed(out, 0);
    float *pp = p.data_ptr<float>(), *tp = thinned.data_ptr<float>();
    parallel(z.batch, [&, query = query, key = key, value = value](int64_t b) {
      for (int64_t h = 0; h < z.heads; h++) {
        float *scores = pp + (keep == nullptr ? b : b * z.heads + h) * square;
        const int64_t column = h * z.width;
        gemm(z.queries, z.keys, z.width, {query.head(b, column), query.stride},
             {key.head(b, column), key.stride, true}, false, scores, z.keys);
        for (int64_t i = 0; i < z.queries; i++) {
          softmax(scores + i * z.keys, masks.row(b, i), z.keys, z.scale);
        }
        if (draw.drops()) {
          drop(scores, tp + b * square, square, draw, b * z.heads + h);
          scores = tp + b * square;
        }
        gemm(z.queries, z.width, z.keys, {scores, z.keys}, {value.head(b, column), value.stride}, false,
             mixed.head(b, column), mixed.stride);
      }
    });
    if (keep != nullptr) {
      *keep = p;
    }
    return out;
  }

  static variable_list backward(AutogradContext *ctx, const variable_list &grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &q = saved[0], &packed = saved[1], &p = saved[2], g = grads[0].contiguous();
    const bool self = !present(q);
    const Sizes z = sizes_of(q, packed, ctx->saved_data["heads"].toInt(), ctx->saved_data["scale"].toDouble(), self);
    at::Tensor dq = self ? at::Tensor() : at::empty_like(q), dpacked = at::empty_like(packed);
    const auto from = operands(q, packed, self), to = operands(dq, dpacked, self);
    const Rows mixed(g, 0);
    const int64_t square = z.queries * z.keys;
    const Draw draw{static_cast<uint64_t>(ctx->saved_data["key"].toInt()), ctx->saved_data["share"].toDouble()};
    at::Tensor scratch = at::empty({z.batch, square}, packed.options());
    const float *pp = p.data_ptr<float>();
    float *sp = scratch.data_ptr<float>();
    parallel(z.batch, [&](int64_t b) {
      for (int64_t h = 0; h < z.heads; h++) {
        head_back(z, b, h, from, to, mixed, pp + (b * z.heads + h) * square, sp + b * square, draw);
      }
    });
    return {dq, dpacked, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }

  static void head_back(const Sizes &z, int64_t b, int64_t h, const std::array<Rows, 3> &from,
                        const std::array<Rows, 3> &to, const Rows &mixed, const float *p, float *scores,
                        const Draw &draw) {
    const auto &[q, k, v] = from;
    const auto &[dq, dk, dv] = to;
    const int64_t column = h * z.width, square = z.queries * z.keys, part = b * z.heads + h;
    const Matrix g{mixed.head(b, column), mixed.stride};
    const float *used = p;
    if (draw.drops()) {
      drop(p, scores, square, draw, part);
      used = scores;
    }
    gemm(z.keys, z.width, z.queries, {used, z.keys, true}, g, false, dv.head(b, column), dv.stride);
    gemm(z.queries, z.keys, z.width, g, {v.head(b, column), v.stride, true}, false, scores, z.keys);
    if (draw.drops()) {
      drop(scores, scores, square, draw, part);
    }
    for (int64_t i = 0; i < z.queries; i++) {
      softmax_back(scores + i * z.keys, p + i * z.keys, z.keys, z.scale);
    }
    gemm(z.queries, z.width, z.keys, {scores, z.keys}, {k.head(b, column), k.stride}, false, dq.head(b, column),
         dq.stride);
    gemm(z.keys, z.width, z.queries, {scores, z.keys, true}, {q.head(b, column), q.stride}, false, dk.head(b, column),
         dk.stride);
  }
};

// mix attends head by head: query, key and value [batch, heads, length, width] give [batch, heads, queries, width].
// libtorch's fused operation keeps no scores in memory. Double precision is for tests, which hold it against the formula.
at::Tensor mix(const std::vector<at::Tensor> &x, const at::Tensor &mask, double scale, const Draw &draw) {
  const at::ScalarType type = x[0].scalar_type();
#if PS_LIBTORCH(2, 4)
  if (type != at::kDouble) {
    std::optional<at::Tensor> added;
    if (present(mask)) {
      added = mask.unsqueeze(1).to(type);
    }
    return at::scaled_dot_product_attention(x[0], x[1], x[2], added, draw.share, false, scale);
  }
#endif
  at::Tensor scores = wide(at::matmul(x[0], x[1].transpose(2, 3))) * scale;
  if (present(mask)) {
    scores = scores + mask.unsqueeze(1);
  }
  return at::matmul(at::dropout(at::softmax(scores, 3), draw.share, draw.drops()).to(type), x[2]);
}

// anywhere is the same in libtorch's operations, for other devices and types. bfloat16 is multiplied as such, its
// products are scaled and normalised in float32.
at::Tensor anywhere(const at::Tensor &query, const at::Tensor &keys, const at::Tensor &mask, int64_t heads,
                    double scale, const Draw &draw) {
  const bool in_bfloat16 = multiplies_bfloat16();
  const at::Tensor q = !present(query) ? query : in_bfloat16 ? to_bfloat16(query) : wide(query);
  const at::Tensor packed = in_bfloat16 ? to_bfloat16(keys) : wide(keys);
  auto parts = packed.chunk(present(q) ? 2 : 3, 2);
  if (present(q)) {
    parts.insert(parts.begin(), q);
  }
  for (at::Tensor &x : parts) {  // [batch, length, heads*width] to [batch, heads, length, width]
    x = x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
  }
  const at::Tensor mixed = mix(parts, mask, scale, draw).transpose(1, 2);
  return mixed.reshape({mixed.size(0), mixed.size(1), -1});
}

void check_shapes(const at::Tensor &q, const at::Tensor &packed, const at::Tensor &mask, int64_t heads) {
  const int64_t parts = present(q) ? 2 : 3;
  TORCH_CHECK(packed.dim() == 3 && heads > 0 && packed.size(2) % (parts * heads) == 0, "packed ", packed.sizes(),
              " does not divide into ", parts, " times ", heads, " heads");
  TORCH_CHECK(!present(q) || (q.dim() == 3 && q.size(0) == packed.size(0) && q.size(2) == packed.size(2) / 2),
              "queries ", q.sizes(), " do not fit keys and values ", packed.sizes());
  const int64_t queries = present(q) ? q.size(1) : packed.size(1);
  TORCH_CHECK(!present(mask) || (mask.dim() == 3 && (mask.size(0) == 1 || mask.size(0) == packed.size(0)) &&
                                  (mask.size(1) == 1 || mask.size(1) == queries) && mask.size(2) == packed.size(1)),
              "the mask wants [batch or 1, queries or 1, keys], has ", mask.sizes());
}

}  // namespace

ps_result ps_attention(ps_tensor *query, ps_tensor *packed_handle, ps_tensor *mask_handle, int64_t heads, double scale,
                       double dropout) {
  return result([&] {
    const at::Tensor q = query == nullptr ? none() : ref(query).contiguous();
    const at::Tensor packed = ref(packed_handle).contiguous();
    const at::Tensor mask = mask_handle == nullptr ? none() : ref(mask_handle).detach().contiguous();
    check_shapes(q, packed, mask, heads);
    const Draw draw = dropout > 0 ? next_draw(dropout) : Draw{};
    // On the CPU these products are a few hundredths of a network's, and rounding costs what it would win.
    if (!fits(q) || !fits(packed) || !fits(mask)) {
      return anywhere(q, packed, mask, heads, scale, draw);
    }
    if (!c10::GradMode::is_enabled()) {
      return AttentionFunction::run(q, packed, mask, heads, scale, draw, nullptr);
    }
    return AttentionFunction::apply(q, packed, mask, heads, scale, draw);
  });
}
