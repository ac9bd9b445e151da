// Linear layers, several of the same input at once.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "gemm.hpp"
#include "guard.hpp"
#include "kernels.hpp"
#include "pool.hpp"
#include "precision.hpp"

using namespace pairstream;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int kMaxLayers = 3;       // query, key and value
constexpr int64_t kRows = 128;      // of the input in one part of the work
constexpr int64_t kOutputs = 64;    // rows of a weight's gradient in one part

// Layers are the weights [out, in] and biases of layers that share an input.
struct Layers {
  std::vector<at::Tensor> weights, biases;
  std::vector<int64_t> offsets;  // of each layer's outputs in a row of the result, and the sum of all

  explicit Layers(const std::vector<at::Tensor> &pairs) : offsets{0} {
    for (size_t i = 0; i + 1 < pairs.size() && present(pairs[i]); i += 2) {
      weights.push_back(pairs[i]);
      biases.push_back(pairs[i + 1]);
      offsets.push_back(offsets.back() + pairs[i].size(0));
    }
  }
  size_t size() const { return weights.size(); }
  int64_t outputs() const { return offsets.back(); }
};

void add_bias(float *out, int64_t stride, int64_t rows, const at::Tensor &bias) {
  const float *b = bias.data_ptr<float>();
  for (int64_t i = 0; i < rows; i++) {
    std::copy(b, b + bias.numel(), out + i * stride);
  }
}

// rows_at_once is the size of the parts that forward is cut into. Without gradients it is one sample: a sample's bits
// then depend on no other, since whatever the library does with a matrix, it does to that sample alone.
int64_t rows_at_once(const at::Tensor &x) {
  if (c10::GradMode::is_enabled()) {
    return kRows;
  }
  return x.dim() > 2 ? x.size(-2) : 1;
}

// part is a matrix within a tensor of float32 or bfloat16: its rows begin at offset.
Matrix part(const at::Tensor &t, int64_t offset, int64_t stride, bool transposed = false) {
  if (t.scalar_type() == at::kBFloat16) {
    return {t.data_ptr<at::BFloat16>() + offset, stride, transposed};
  }
  return {t.data_ptr<float>() + offset, stride, transposed};
}

// by_columns says that a weight lies in memory column by column, as the transpose of a contiguous matrix does.
bool by_columns(const at::Tensor &w) { return !w.is_contiguous() && w.stride(0) == 1 && w.stride(1) >= w.size(0); }

// is_factor says that the products here take a weight: of float32, or of bfloat16 where these are rounded and not trained.
bool is_factor(const at::Tensor &w) {
  return own_kernels(w) || (own_bfloat16(w) && multiplies_bfloat16() && !c10::GradMode::is_enabled());
}

// weight is a weight [out, in] as a factor; transposed, its transpose. Forward's products read a weight that lies by
// columns faster, most of all with few rows of x.
Matrix weight(const at::Tensor &w, bool transposed) {
  return by_columns(w) ? part(w, 0, w.stride(1), !transposed) : part(w, 0, w.size(1), transposed);
}

// forward multiplies x by the weights, which have its type, float32 or bfloat16; the result is of float32.
at::Tensor forward(const at::Tensor &x, const Layers &layers) {
  const int64_t inputs = x.size(-1), rows = x.numel() / std::max<int64_t>(inputs, 1), stride = layers.outputs();
  auto shape = x.sizes().vec();
  shape.back() = stride;
  at::Tensor y = at::empty(shape, x.options().dtype(at::kFloat));
  float *to = y.data_ptr<float>();
  const int64_t step = std::max<int64_t>(rows_at_once(x), 1);
  parallel((rows + step - 1) / step, [&](int64_t index) {
    const int64_t first = index * step, n = std::min(step, rows - first);
    for (size_t i = 0; i < layers.size(); i++) {
      float *out = to + first * stride + layers.offsets[i];
      const bool bias = present(layers.biases[i]);
      if (bias) {
        add_bias(out, stride, n, layers.biases[i]);
      }
      gemm(n, layers.weights[i].size(0), inputs, part(x, first * inputs, inputs),
           weight(layers.weights[i], true), bias, out, stride);
    }
  });
  return y;
}

// round_weights returns the pairs with their weights rounded, where they are not yet.
std::vector<at::Tensor> round_weights(std::vector<at::Tensor> pairs) {
  for (size_t i = 0; i < pairs.size() && present(pairs[i]); i += 2) {
    pairs[i] = pairs[i].scalar_type() == at::kBFloat16 ? pairs[i] : rounded(pairs[i]);
  }
  return pairs;
}

// add_columns sums up columns [0, n) of rows of g, in blocks, so that the rounding errors of long sums stay small.
void add_columns(const float *g, int64_t stride, int64_t rows, int64_t n, float *sums) {
  float block[kOutputs];
  std::fill(sums, sums + n, 0.0f);
  for (int64_t first = 0; first < rows; first += kRows) {
    std::fill(block, block + n, 0.0f);
    for (int64_t i = first; i < std::min(rows, first + kRows); i++) {
      for (int64_t j = 0; j < n; j++) {
        block[j] += g[i * stride + j];
      }
    }
    for (int64_t j = 0; j < n; j++) {
      sums[j] += block[j];
    }
  }
}

// Part is a piece of a weight's gradient: outputs [from, from+n) of a layer.
struct Part {
  size_t layer;
  int64_t from, n;
};

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext *ctx, const at::Tensor &x, const at::Tensor &w0, const at::Tensor &b0,
                            const at::Tensor &w1, const at::Tensor &b1, const at::Tensor &w2, const at::Tensor &b2) {
    ctx->saved_data["biases"] = (present(b0) ? 1 : 0) | (present(b1) ? 2 : 0) | (present(b2) ? 4 : 0);
    if (!multiplies_bfloat16()) {
      ctx->save_for_backward({x, w0, w1, w2});
      return ::forward(x, Layers({w0, b0, w1, b1, w2, b2}));
    }
    const at::Tensor input = rounded(x);
    const std::vector<at::Tensor> pairs = round_weights({w0, b0, w1, b1, w2, b2});
    ctx->save_for_backward({input, pairs[0], pairs[2], pairs[4]});
    return ::forward(input, Layers(pairs));
  }

  static variable_list backward(AutogradContext *ctx, const variable_list &grads) {
    const variable_list saved = ctx->get_saved_variables();
    const int64_t biases = ctx->saved_data["biases"].toInt();
    const at::Tensor &x = saved[0], g = grads[0].contiguous();
    const Layers layers({saved[1], none(), saved[2], none(), saved[3], none()});
    variable_list out(1 + 2 * kMaxLayers);
    if (ctx->needs_input_grad(0)) {
      out[0] = at::empty(x.sizes(), g.options());
    }
    std::vector<Part> parts;
    for (size_t i = 0; i < layers.size(); i++) {
      if (!ctx->needs_input_grad(1 + 2 * i)) {
        continue;
      }
      out[1 + 2 * i] = at::empty(layers.weights[i].sizes(), g.options());
      if ((biases >> i & 1) != 0) {
        out[2 + 2 * i] = at::empty({layers.weights[i].size(0)}, g.options());
      }
      for (int64_t from = 0; from < layers.weights[i].size(0); from += kOutputs) {
        parts.push_back({i, from, std::min(kOutputs, layers.weights[i].size(0) - from)});
      }
    }
    run(x, g, layers, parts, out);
    return out;
  }

  // run computes the gradients of weights first, whose parts are the larger ones, and then that of the input. Products
  // are of the type of x, sums over rows of float32.
  static void run(const at::Tensor &x, const at::Tensor &g, const Layers &layers, const std::vector<Part> &parts,
                  variable_list &out) {
    const int64_t inputs = x.size(-1), rows = x.numel() / std::max<int64_t>(inputs, 1), stride = layers.outputs();
    const at::Tensor factor = x.scalar_type() == at::kBFloat16 ? rounded(g) : g;
    const float *gp = g.data_ptr<float>();
    const auto weight_parts = static_cast<int64_t>(parts.size());
    const int64_t input_parts = out[0].defined() ? (rows + kRows - 1) / kRows : 0;
    parallel(weight_parts + input_parts, [&](int64_t index) {
      if (index < weight_parts) {
        const Part &p = parts[index];
        const int64_t column = layers.offsets[p.layer] + p.from;
        gemm(p.n, inputs, rows, part(factor, column, stride, true), part(x, 0, inputs), false,
             out[1 + 2 * p.layer].data_ptr<float>() + p.from * inputs, inputs);
        if (out[2 + 2 * p.layer].defined()) {
          add_columns(gp + column, stride, rows, p.n, out[2 + 2 * p.layer].data_ptr<float>() + p.from);
        }
        return;
      }
      const int64_t first = (index - weight_parts) * kRows, n = std::min(kRows, rows - first);
      for (size_t i = 0; i < layers.size(); i++) {
        gemm(n, inputs, layers.weights[i].size(0), part(factor, first * stride + layers.offsets[i], stride),
             weight(layers.weights[i], false), i > 0, out[0].data_ptr<float>() + first * inputs, inputs);
      }
    });
  }
};

void check_shapes(const at::Tensor &x, const at::Tensor &w, const at::Tensor &b) {
  TORCH_CHECK(x.dim() > 0 && w.dim() == 2 && x.size(-1) == w.size(1), "input ", x.sizes(), " and weight ", w.sizes(),
              " do not fit");
  TORCH_CHECK(!present(b) || (b.dim() == 1 && b.size(0) == w.size(0)), "weight ", w.sizes(), " and bias ", b.sizes(),
              " do not fit");
}

// anywhere is the same in libtorch's operations, for other devices and types. Inputs of bfloat16 give results of bfloat16.
at::Tensor anywhere(const at::Tensor &input, std::vector<at::Tensor> pairs) {
  const at::Tensor x = multiplies_bfloat16() ? to_bfloat16(input) : wide(input);
  if (multiplies_bfloat16()) {
    for (at::Tensor &t : pairs) {
      t = present(t) ? to_bfloat16(t).to(x.scalar_type()) : t;
    }
  }
  const Layers layers(pairs);
  if (layers.size() == 1) {
    return at::linear(x, layers.weights[0], present(layers.biases[0]) ? layers.biases[0] : at::Tensor());
  }
  return at::linear(x, at::cat(layers.weights), present(layers.biases[0]) ? at::cat(layers.biases) : at::Tensor());
}

}  // namespace

ps_result ps_linear(ps_tensor *input, ps_tensor **weights, ps_tensor **biases, int n) {
  return result([&] {
    TORCH_CHECK(n >= 1 && n <= kMaxLayers, n, " layers, want 1 to ", kMaxLayers);
    std::vector<at::Tensor> pairs(2 * kMaxLayers, none());
    bool fast = true;
    for (int i = 0; i < n; i++) {
      pairs[2 * i] = ref(weights[i]);
      pairs[2 * i + 1] = biases[i] == nullptr ? none() : ref(biases[i]);
      check_shapes(ref(input), pairs[2 * i], pairs[2 * i + 1]);
      const at::Tensor &w = pairs[2 * i];
      fast = fast && is_factor(w) && (w.is_contiguous() || by_columns(w)) && fits(pairs[2 * i + 1]);
    }
    const at::Tensor x = ref(input).contiguous();
    if (!fast || !fits(x)) {
      return anywhere(x, pairs);
    }
    if (!c10::GradMode::is_enabled()) {
      return multiplies_bfloat16() ? forward(rounded(x), Layers(round_weights(pairs))) : forward(x, Layers(pairs));
    }
    return LinearFunction::apply(x, pairs[0], pairs[1], pairs[2], pairs[3], pairs[4], pairs[5]);
  });
}
