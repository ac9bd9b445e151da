// Copies to a device while it computes.
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <mutex>
#include <unordered_map>

#include "guard.hpp"
#include "kernels.hpp"
#include "pool.hpp"

using namespace pairstream;

namespace {

using c10::impl::VirtualGuardImpl;

// Upload is a tensor that is complete once arrived has happened on the device; on the CPU it is so from the start.
//
// Nothing here waits, and nothing is overwritten too early, by rules of libtorch's two allocators: pinned memory that a
// copy has been queued from is not given out again before the copy is done, and a device's memory not before the
// streams that were named for it have come to the point where it was freed.
struct Upload {
  at::Tensor data;
  std::unique_ptr<c10::Event> arrived;
};

Upload *upload_of(ps_upload *u) { return reinterpret_cast<Upload *>(u); }

// beside is the stream of the current device's uploads, one for all: a device's memory is kept by stream.
c10::Stream beside(const VirtualGuardImpl &devices) {
  static std::mutex mutex;
  static auto *streams = new std::unordered_map<c10::Device, c10::Stream>;
  const std::lock_guard<std::mutex> lock(mutex);
  const c10::Device device = devices.getDevice();
  auto found = streams->find(device);
  if (found == streams->end()) {
    found = streams->emplace(device, devices.getStreamFromGlobalPool(device)).first;
  }
  return found->second;
}

std::unique_ptr<Upload> started(const at::Tensor &host, const at::Device &to) {
  auto u = std::make_unique<Upload>();
  if (to.is_cpu()) {
    u->data = host;
    return u;
  }
  const c10::DeviceGuard on(to);
  const c10::Stream stream = beside(VirtualGuardImpl(to.type()));
  const c10::StreamGuard within(stream);
  u->data = at::empty(host.sizes(), host.options().pinned_memory(false).device(to));
  u->data.copy_(host, /*non_blocking=*/true);
  u->arrived = std::make_unique<c10::Event>(to.type());
  u->arrived->record(stream);
  return u;
}

// normalised computes (x / 255 - mean) / deviation of bytes, by channel. Each operation rounds, so the bits are those of every
// device. The divisor is a tensor, as a GPU multiplies by the reciprocal of a number, which rounds otherwise.
at::Tensor normalised(const at::Tensor &bytes, const float *normal) {
  at::Tensor x = at::empty(bytes.sizes(), bytes.options().dtype(at::kFloat));
  if (own_kernels(x)) {
    const int64_t plane = bytes.size(2) * bytes.size(3);
    const auto *from = bytes.data_ptr<uint8_t>();
    auto *to = x.data_ptr<float>();
    parallel(bytes.size(0) * 3, [&](int64_t p) {
      const float whole = normal[p % 3], mean = normal[3 + p % 3], deviation = normal[6 + p % 3];
      for (int64_t i = p * plane; i < (p + 1) * plane; i++) {
        to[i] = (static_cast<float>(from[i]) / whole - mean) / deviation;
      }
    });
    return x;
  }
  const int64_t dims[] = {3, 3, 1, 1};
  const bool pinned = !x.is_cpu();
  const at::Tensor by = host_copy(normal, PS_FLOAT32, dims, 4, pinned).to(x.device(), at::kFloat, /*non_blocking=*/pinned);
  return x.copy_(bytes).div_(by.select(0, 0)).sub_(by.select(0, 1)).div_(by.select(0, 2));
}

}  // namespace

ps_upload_result ps_upload_start(const void *data, int dtype, const int64_t *dims, int n, const char *device) {
  ps_upload_result r{nullptr, nullptr};
  r.error = guarded([&] {
    c10::NoGradGuard no_grad;
    const at::Device to{std::string(device)};
    r.upload = reinterpret_cast<ps_upload *>(started(host_copy(data, dtype, dims, n, !to.is_cpu()), to).release());
  });
  return r;
}

ps_result ps_upload_receive(ps_upload *handle, const float *normal) {
  const std::unique_ptr<Upload> u(upload_of(handle));
  return result([&] {
    c10::NoGradGuard no_grad;
    if (u->arrived != nullptr) {
      const c10::Stream computing = VirtualGuardImpl(u->data.device().type()).getStream(u->data.device());
      u->arrived->block(computing);
      u->data.record_stream(computing);
    }
    return normal == nullptr ? u->data : normalised(u->data, normal);
  });
}

void ps_upload_free(ps_upload *upload) { delete upload_of(upload); }
