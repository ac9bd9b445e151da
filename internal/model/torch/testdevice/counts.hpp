// What is counted, and what a GPU would refuse.
#ifndef PAIRSTREAM_TESTDEVICE_COUNTS_HPP
#define PAIRSTREAM_TESTDEVICE_COUNTS_HPP

#include <ATen/ATen.h>

#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

namespace testdevice {

const c10::Device kHere(c10::DeviceType::PrivateUse1, 0);

inline bool here(const at::Tensor &t) { return t.defined() && t.device().type() == kHere.type(); }

struct Counts {
  std::mutex mutex;
  std::map<std::string, double> of;  // by kind and name
  void add(const std::string &kind, const std::string &name, double n) {
    const std::lock_guard<std::mutex> hold(mutex);
    of[kind + " " + name] += n;
  }
};

inline Counts &counts() {
  static auto *one = new Counts;
  return *one;
}

inline void reset_counts() {
  const std::lock_guard<std::mutex> hold(counts().mutex);
  counts().of.clear();
}

inline std::string counted() {
  const std::lock_guard<std::mutex> hold(counts().mutex);
  std::ostringstream text;
  text.precision(17);
  for (const auto &[what, n] : counts().of) {
    text << what << "\t" << n << "\n";
  }
  return text.str();
}

inline void count_sync(const std::string &name) { counts().add("sync", name, 1); }

inline void count_upload(size_t bytes) { counts().add("upload", "bytes", static_cast<double>(bytes)); }

inline void count_kernel(const std::string &name, double bytes) {
  counts().add("kernel", name, 1);
  counts().add("memory", "bytes", bytes);
}

// count_product counts the operations of a product. GPUs multiply float64 and int64 slowly, or not at all.
inline void count_product(const std::string &name, const at::Tensor &x, double operations, size_t bytes) {
  count_kernel(name, static_cast<double>(bytes));
  counts().add("product", "operations", operations);
  if (x.scalar_type() == at::kDouble || x.scalar_type() == at::kLong) {
    counts().add("wide", name, 1);
  }
}

// Work is what an operation does.
struct Work {
  double bytes = 0;       // of arguments and results
  double operations = 0;  // of a product
  bool wide = false;      // in float64, or a product of int64
};

template <typename F>
void each_tensor(const c10::IValue &v, F f) {
  if (v.isTensor()) {
    f(v.toTensor());
  } else if (v.isTensorList()) {
    for (const at::Tensor &t : v.toTensorVector()) {
      f(t);
    }
  } else if (v.isOptionalTensorList()) {
    for (const auto &t : v.toOptionalTensorVector()) {
      if (t.has_value()) {
        f(*t);
      }
    }
  }
}

// check_places refuses tensors of the processor, as a GPU's operations do, unless they are single numbers.
inline void check_places(const c10::FunctionSchema &schema, const std::vector<c10::IValue> &args) {
  for (const c10::IValue &v : args) {
    each_tensor(v, [&](const at::Tensor &t) {
      TORCH_CHECK(!t.defined() || here(t) || t.dim() == 0, schema.operator_name(),
                  ": expected all tensors to be on the same device, but found one of ", t.sizes(), " on ", t.device());
    });
  }
}

// The factors of products, by their place among the arguments.
inline int factors_at(const std::string &name) {
  static const std::map<std::string, int> places{{"aten::mm", 0}, {"aten::bmm", 0}, {"aten::addmm", 1}, {"aten::baddbmm", 1}, {"aten::mv", 0}, {"aten::dot", 0}};
  const auto found = places.find(name);
  return found == places.end() ? -1 : found->second;
}

inline Work work_of(const c10::FunctionSchema &schema, const std::vector<c10::IValue> &args) {
  Work w;
  for (const c10::IValue &v : args) {
    each_tensor(v, [&](const at::Tensor &t) {
      if (t.defined()) {
        w.bytes += static_cast<double>(t.nbytes());
        w.wide = w.wide || (t.dim() > 0 && t.scalar_type() == at::kDouble);
      }
    });
  }
  if (const int at = factors_at(schema.name()); at >= 0) {
    const at::Tensor x = args[static_cast<size_t>(at)].toTensor(), y = args[static_cast<size_t>(at) + 1].toTensor();
    w.operations = 2.0 * static_cast<double>(x.numel()) * static_cast<double>(y.size(-1));
    w.wide = w.wide || x.scalar_type() == at::kLong;
  }
  return w;
}

// waits says whether the host waits for the device in an operation, because its result has a size or a value of the host.
inline bool waits(const std::string &name) {
  static const std::set<std::string> names{"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::_unique2",
                                           "aten::unique_dim", "aten::unique_consecutive", "aten::equal", "aten::bincount",
                                           "aten::repeat_interleave"};
  return names.count(name) > 0;
}

inline void count(const c10::FunctionSchema &schema, const Work &w) {
  const std::string &name = schema.name();
  if (waits(name)) {
    count_sync(name);
  }
  count_kernel(name, w.bytes);
  if (w.operations > 0) {
    counts().add("product", "operations", w.operations);
  }
  if (w.wide) {
    counts().add("wide", name, 1);
  }
}

}  // namespace testdevice

#endif
