// What the shim's files share: how handles become tensors and how exceptions become strings.
#ifndef PAIRSTREAM_TORCH_GUARD_HPP
#define PAIRSTREAM_TORCH_GUARD_HPP

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>

#include "pool.hpp"
#include "shim.h"

// PS_LIBTORCH says whether libtorch is of a version or later.
#define PS_LIBTORCH(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

namespace pairstream {

inline const at::Tensor &ref(ps_tensor *x) { return *reinterpret_cast<const at::Tensor *>(x); }

// Many operations take "no tensor" (a bias that is not there) as an undefined one.
inline at::Tensor maybe(ps_tensor *x) { return x == nullptr ? at::Tensor() : ref(x); }

// none stands for an absent tensor where an undefined one will not do: among the inputs of an autograd function.
inline const at::Tensor &none() {
  static const at::Tensor *empty = new at::Tensor(at::empty({0}));
  return *empty;
}
inline bool present(const at::Tensor &x) { return x.defined() && !x.is_same(none()); }

inline ps_tensor *own(at::Tensor x) { return reinterpret_cast<ps_tensor *>(new at::Tensor(std::move(x))); }

inline std::string message(const c10::Error &e) { return e.what_without_backtrace(); }
inline std::string message(const std::exception &e) { return e.what(); }

template <typename F>
char *guarded(F f) {
  try {
    f();
    return nullptr;
  } catch (const c10::Error &e) {
    return strdup(message(e).c_str());
  } catch (const std::exception &e) {
    return strdup(message(e).c_str());
  } catch (...) {
    return strdup("an exception of unknown type");
  }
}

// result runs an expression that makes one tensor.
template <typename F>
ps_result result(F f) {
  ps_result r{nullptr, nullptr};
  r.error = guarded([&] { r.tensor = own(f()); });
  return r;
}

inline at::ScalarType scalar_type(int dtype) {
  switch (dtype) {
    case PS_FLOAT32: return at::kFloat;
    case PS_FLOAT64: return at::kDouble;
    case PS_BFLOAT16: return at::kBFloat16;
    case PS_INT64: return at::kLong;
    case PS_BOOL: return at::kBool;
    case PS_UINT8: return at::kByte;
    case PS_FLOAT16: return at::kHalf;
  }
  throw std::invalid_argument("no such dtype: " + std::to_string(dtype));
}

inline at::IntArrayRef dims_of(const int64_t *dims, int n) { return at::IntArrayRef(dims, static_cast<size_t>(n)); }

// host_copy is a tensor of a copy of data on the host; pinned, a device copies from it while the host goes on. Then all
// threads copy, which have nothing else to do: one of them is slower than the way to the device.
inline at::Tensor host_copy(const void *data, int dtype, const int64_t *dims, int n, bool pinned) {
  at::Tensor t = at::empty(dims_of(dims, n), at::TensorOptions().dtype(scalar_type(dtype)).pinned_memory(pinned));
  const auto *from = static_cast<const char *>(data);
  auto *to = static_cast<char *>(t.data_ptr());
  const int64_t all = static_cast<int64_t>(t.nbytes()), part = pinned ? int64_t{1} << 20 : std::max<int64_t>(all, 1);
  parallel((all + part - 1) / part, [&](int64_t i) { std::memcpy(to + i * part, from + i * part, std::min(part, all - i * part)); });
  return t;
}

}  // namespace pairstream

#endif
