// The device's tensors lie in the host's memory. Views and allocation are its own. Every other operation goes through a
// fallback, which checks where the arguments lie, counts, and lets the processor compute on the same memory.
#include "device.h"

#include <torch/version.h>

#include <cstdlib>
#include <cstring>

#if TORCH_VERSION_MAJOR != 1

char *psd_install(void) { return strdup("the device of tests is written for libtorch 1.13, Debian's; this one is " TORCH_VERSION); }
void psd_reset(void) {}
char *psd_counts(void) { return strdup(""); }

#else

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include "counts.hpp"
#include "memory.hpp"

using namespace testdevice;

namespace {

// A guard of one device with one stream, on which nothing ever has to be waited for.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kHere.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return kHere; }
  c10::Device getDevice() const override { return kHere; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void **, const c10::Stream &, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void *, const c10::Stream &) const override {}
  bool queryEvent(void *) const override { return true; }
  void destroyEvent(void *, const c10::DeviceIndex) const noexcept override {}
  bool queryStream(const c10::Stream &) const override { return true; }
  void synchronizeStream(const c10::Stream &) const override { count_sync("waiting for a stream"); }

  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, kHere); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// call_on_cpu runs an operation on the memory of its arguments and puts results onto the device.
void call_on_cpu(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  const auto &schema = op.schema();
  const size_t taken = schema.arguments().size(), first = stack->size() - taken;
  const std::vector<c10::IValue> before(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  check_places(schema, before);
  Work work = work_of(schema, before);
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // on the device, on the processor
  for (size_t i = 0; i < taken; i++) {
    const auto *alias = schema.arguments()[i].alias_info();
    (*stack)[first + i] = value_on_cpu(before[i], alias != nullptr && alias->isWrite(), written);
  }
  {
    const at::AutoDispatchBelowAutograd below;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  take_back(written);
  const auto &returns = schema.returns();
  const size_t results = stack->size() - returns.size();
  size_t next_written = 0;
  for (size_t i = 0; i < returns.size(); i++) {
    c10::IValue &value = (*stack)[results + i];
    const auto *alias = returns[i].alias_info();
    if (alias == nullptr) {
      value = value_on_device(value, work);
      continue;
    }
    TORCH_CHECK(alias->isWrite(), schema.operator_name(), " makes a view, which the device of tests does not know");
    value = written.at(next_written++).first;
  }
  count(schema, work);
}

at::Tensor empty(at::IntArrayRef size, c10::optional<at::ScalarType> dtype, c10::optional<at::Layout>,
                 c10::optional<at::Device>, c10::optional<bool>, c10::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, c10::optional<at::ScalarType> dtype,
                         c10::optional<at::Layout>, c10::optional<at::Device>, c10::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

const at::Tensor &resize_(const at::Tensor &self, at::IntArrayRef size, c10::optional<at::MemoryFormat>) {
  grow(self, size);
  return self;
}

// copy_ is where the host and the device meet. PyTorch waits for every copy to the host, and for every one from it that
// is not from pinned memory, or not asked for as non-blocking.
at::Tensor &copy_(at::Tensor &self, const at::Tensor &from, bool non_blocking) {
  if (!here(self)) {
    count_sync("a copy to the host");
  } else if (!here(from)) {
    if (non_blocking && is_pinned(from.data_ptr())) {
      count_upload(from.nbytes());
    } else {
      count_sync("a copy from pageable memory");
    }
  } else {
    count_kernel("aten::copy_", 2 * static_cast<double>(self.nbytes()));
  }
  const at::AutoDispatchBelowAutograd below;
  on_cpu(self).copy_(on_cpu(from));
  return self;
}

at::Tensor convolution(const at::Tensor &x, const at::Tensor &weight, const c10::optional<at::Tensor> &bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  c10::optional<at::Tensor> b = bias.has_value() && bias->defined() ? c10::optional<at::Tensor>(on_cpu(*bias)) : c10::nullopt;
  const at::Tensor y = at::convolution(on_cpu(x), on_cpu(weight), b, stride, padding, dilation, transposed, output_padding, groups);
  count_product("aten::convolution", x, 2.0 * static_cast<double>(y.numel() * weight.numel() / weight.size(0)), x.nbytes() + weight.nbytes() + y.nbytes());
  return on_device(y);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&call_on_cpu>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("resize_", &resize_);
  m.impl("copy_", &copy_);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", static_cast<at::Tensor (*)(const at::Tensor &, at::IntArrayRef)>(&at::native::view));
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("convolution_overrideable", &convolution);
  m.impl("record_stream", [](at::Tensor &, c10::Stream) {});
}

char *psd_install(void) {
  if (at::CUDAHooksRegistry()->Has("CUDAHooks")) {
    return strdup("the device of tests and CUDA do not fit into one process");
  }
  at::CUDAHooksRegistry()->Register("CUDAHooks", [](at::CUDAHooksArgs) -> std::unique_ptr<at::CUDAHooksInterface> {
    return std::make_unique<PinnedMemory>();
  });
  return nullptr;
}

void psd_reset(void) { reset_counts(); }

char *psd_counts(void) { return strdup(counted().c_str()); }

#endif
