// Data in and out, and the operations that libtorch has ready.
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include "guard.hpp"
#include "precision.hpp"

using namespace pairstream;

int64_t ps_thread_mark(void) {
  static thread_local char mark;
  return reinterpret_cast<int64_t>(&mark);
}

int ps_set_grad(int enabled) {
  bool before = c10::GradMode::is_enabled();
  c10::GradMode::set_enabled(enabled != 0);
  return before ? 1 : 0;
}

// Ids, masks and targets of a step go to the device without making the host wait. More than this, such as weights, is
// not pinned: libtorch keeps pinned memory for good.
constexpr int64_t kPinned = 1 << 20;

ps_result ps_from_data(const void *data, int dtype, const int64_t *dims, int n, const char *device) {
  return result([&] {
    const at::Device to{std::string(device)};
    int64_t bytes = static_cast<int64_t>(at::elementSize(scalar_type(dtype)));
    for (int64_t d : dims_of(dims, n)) {
      bytes *= d;
    }
    const bool pinned = !to.is_cpu() && bytes <= kPinned;
    const at::Tensor t = host_copy(data, dtype, dims, n, pinned);
    return t.to(to, t.scalar_type(), /*non_blocking=*/pinned);
  });
}

ps_result ps_full(double value, int dtype, const int64_t *dims, int n, const char *device) {
  return result([&] {
    return at::full(dims_of(dims, n), value,
                    at::TensorOptions().dtype(scalar_type(dtype)).device(at::Device(std::string(device))));
  });
}

ps_result ps_arange(int64_t n, const char *device) {
  return result(
      [&] { return at::arange(n, at::TensorOptions().dtype(at::kLong).device(at::Device(std::string(device)))); });
}

void ps_free(ps_tensor **tensors, int n) {
  for (int i = 0; i < n; i++) {
    delete reinterpret_cast<at::Tensor *>(tensors[i]);
  }
}

int ps_dim(ps_tensor *x) { return static_cast<int>(ref(x).dim()); }

void ps_shape(ps_tensor *x, int64_t *dims) {
  for (int64_t d : ref(x).sizes()) {
    *dims++ = d;
  }
}

int ps_dtype_of(ps_tensor *x) {
  switch (ref(x).scalar_type()) {
    case at::kFloat: return PS_FLOAT32;
    case at::kDouble: return PS_FLOAT64;
    case at::kBFloat16: return PS_BFLOAT16;
    case at::kLong: return PS_INT64;
    case at::kBool: return PS_BOOL;
    case at::kByte: return PS_UINT8;
    case at::kHalf: return PS_FLOAT16;
    default: return PS_OTHER;
  }
}

char *ps_read(ps_tensor *x, int dtype, void *into) {
  return guarded([&] {
    at::Tensor t = ref(x).detach().to(at::kCPU).to(scalar_type(dtype)).contiguous();
    if (t.numel() > 0) {
      std::memcpy(into, t.data_ptr(), t.nbytes());
    }
  });
}

char *ps_write(ps_tensor *x, const void *data, int dtype) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    const at::Tensor &t = ref(x);
    if (t.numel() > 0) {
      t.copy_(at::from_blob(const_cast<void *>(data), t.sizes(), at::TensorOptions().dtype(scalar_type(dtype))));
    }
  });
}

char *ps_copy(ps_tensor *into, ps_tensor *from) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    TORCH_CHECK(ref(into).sizes() == ref(from).sizes(), "copying ", ref(from).sizes(), " into ", ref(into).sizes());
    ref(into).copy_(ref(from));
  });
}

char *ps_item(ps_tensor *x, double *into) {
  return guarded([&] { *into = ref(x).item().toDouble(); });
}

ps_result ps_unary(int op, ps_tensor *handle, double a, double b) {
  return result([&]() -> at::Tensor {
    const at::Tensor &x = ref(handle);
    switch (op) {
      case PS_NEG: return at::neg(x);
      case PS_EXP: return at::exp(x);
      case PS_LOG: return at::log(x);
      case PS_SQRT: return at::sqrt(x);
      case PS_SQUARE: return at::mul(x, x);
      case PS_CONTIGUOUS: return x.contiguous();
      case PS_DETACH: return x.detach();
      case PS_SUM_ALL: return at::sum(x);
      case PS_MEAN_ALL: return at::mean(x);
      case PS_NOT: return at::logical_not(x);
      case PS_ZEROS_LIKE: return at::zeros_like(x.detach());
      case PS_CLAMP: return at::clamp(x, a, b);
      case PS_ADD_SCALAR: return at::add(x, a);
      case PS_MUL_SCALAR: return at::mul(x, a);
      case PS_EQ_SCALAR: return at::eq(x, a);
      case PS_TRIL: return at::tril(x, static_cast<int64_t>(a));
      case PS_DIAGONAL: return at::diagonal(x, static_cast<int64_t>(a));
    }
    throw std::invalid_argument("no such unary operation: " + std::to_string(op));
  });
}

ps_result ps_binary(int op, ps_tensor *left, ps_tensor *right) {
  return result([&]() -> at::Tensor {
    const at::Tensor &x = ref(left), &y = ref(right);
    switch (op) {
      case PS_ADD: return at::add(x, y);
      case PS_SUB: return at::sub(x, y);
      case PS_MUL: return at::mul(x, y);
      case PS_DIV: return at::div(x, y);
      case PS_MATMUL: return at::matmul(x, y);
      case PS_EQ: return at::eq(x, y);
      case PS_GT: return at::gt(x, y);
      case PS_GE: return at::ge(x, y);
      case PS_AND: return at::logical_and(x, y);
      case PS_OR: return at::logical_or(x, y);
    }
    throw std::invalid_argument("no such binary operation: " + std::to_string(op));
  });
}

ps_result ps_along(int op, ps_tensor *handle, int64_t dim, int64_t a, int64_t b) {
  return result([&]() -> at::Tensor {
    const at::Tensor &x = ref(handle);
    switch (op) {
      case PS_SOFTMAX: return at::softmax(wide(x), dim);
      case PS_LOG_SOFTMAX: return at::log_softmax(wide(x), dim);
      case PS_ARGMAX: return at::argmax(x, dim);
      case PS_UNSQUEEZE: return at::unsqueeze(x, dim);
      case PS_SQUEEZE: return at::squeeze(x, dim);
      case PS_SELECT: return at::select(x, dim, a);
      case PS_NARROW: return at::narrow(x, dim, a, b);
      case PS_TRANSPOSE: return at::transpose(x, dim, a);
      case PS_SUM: return at::sum(x, at::IntArrayRef(dim), a != 0);
      case PS_MEAN: return at::mean(x, at::IntArrayRef(dim), a != 0);
    }
    throw std::invalid_argument("no such operation along a dimension: " + std::to_string(op));
  });
}

ps_result ps_reshape(int op, ps_tensor *handle, const int64_t *dims, int n) {
  return result([&]() -> at::Tensor {
    const at::Tensor &x = ref(handle);
    switch (op) {
      case PS_RESHAPE: return at::reshape(x, dims_of(dims, n));
      case PS_PERMUTE: return at::permute(x, dims_of(dims, n));
      case PS_EXPAND: return x.expand(dims_of(dims, n));
    }
    throw std::invalid_argument("no such operation on a shape: " + std::to_string(op));
  });
}

ps_result ps_index(int op, ps_tensor *handle, int64_t dim, ps_tensor *index) {
  return result([&]() -> at::Tensor {
    switch (op) {
      case PS_INDEX_SELECT: return at::index_select(ref(handle), dim, ref(index));
      case PS_GATHER: return at::gather(ref(handle), dim, ref(index));
    }
    throw std::invalid_argument("no such operation with an index: " + std::to_string(op));
  });
}

ps_result ps_cat(ps_tensor **handles, int n, int64_t dim) {
  return result([&] {
    std::vector<at::Tensor> xs;
    for (int i = 0; i < n; i++) {
      xs.push_back(ref(handles[i]));
    }
    return at::cat(xs, dim);
  });
}

ps_result ps_to(ps_tensor *x, int dtype) {
  return result([&] { return ref(x).to(scalar_type(dtype)); });
}

ps_result ps_masked_fill(ps_tensor *x, ps_tensor *mask, double value) {
  return result([&] { return at::masked_fill(ref(x), ref(mask), value); });
}

ps_result ps_where(ps_tensor *condition, ps_tensor *yes, ps_tensor *no) {
  return result([&] { return at::where(ref(condition), ref(yes), ref(no)); });
}

ps_results ps_topk(ps_tensor *x, int64_t k, int64_t dim) {
  ps_results r{nullptr, nullptr, nullptr};
  r.error = guarded([&] {
    auto [values, indices] = at::topk(ref(x), k, dim);
    r.first = own(values);
    r.second = own(indices);
  });
  return r;
}

ps_result ps_embedding(ps_tensor *weight, ps_tensor *ids, int64_t padding) {
  return result([&] { return at::embedding(ref(weight), ref(ids), padding); });
}

ps_result ps_normalize(ps_tensor *handle, int64_t dim, double eps) {
  return result([&] {
    const at::Tensor x = wide(ref(handle));
    return at::div(x, at::clamp_min(at::norm(x, 2, at::IntArrayRef(dim), true), eps));
  });
}

ps_result ps_cross_entropy(ps_tensor *logits, ps_tensor *targets, int64_t ignore) {
  return result([&] {
    return at::nll_loss(at::log_softmax(wide(ref(logits)), 1), ref(targets), {}, at::Reduction::Mean, ignore);
  });
}

char *ps_backward(ps_tensor *loss) {
  return guarded([&] { torch::autograd::backward({ref(loss)}); });
}

int ps_requires_grad(ps_tensor *x) { return ref(x).requires_grad() ? 1 : 0; }

char *ps_set_requires_grad(ps_tensor *x, int on) {
  return guarded([&] { ref(x).set_requires_grad(on != 0); });
}

ps_result ps_grad(ps_tensor *x) {
  ps_result r{nullptr, nullptr};
  r.error = guarded([&] {
    if (ref(x).grad().defined()) {
      r.tensor = own(ref(x).grad());
    }
  });
  return r;
}

char *ps_zero_grad(ps_tensor **xs, int n) {
  return guarded([&] {
    for (int i = 0; i < n; i++) {
      ref(xs[i]).mutable_grad() = at::Tensor();
    }
  });
}
