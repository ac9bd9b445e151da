//go:build !torchbindings

// A reduce-scatter and an all-gather of slices, on a stream beside the one that computes.
#include "nccl.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "../../torch/guard.hpp"
#include "library.hpp"

using namespace pairstream;

struct psn_group {
  c10::Device device;
  c10::Stream stream;
  int rank, world;
  NcclComm comm = nullptr;
  at::Tensor host, mine, pieces;  // all values, on the host and on the device; others' shares of this rank's slice
  std::unique_ptr<c10::Event> done;

  int64_t size() const { return mine.numel(); }
  // Slices differ by one value at most. They are those of the exchange over TCP.
  int64_t from(int owner) const { return size() / world * owner + std::min<int64_t>(owner, size() % world); }
  int64_t of(int owner) const { return from(owner + 1) - from(owner); }
  float *at(int owner) { return mine.data_ptr<float>() + from(owner); }
};

namespace {

void *native(const c10::Stream &s) {
#if PS_LIBTORCH(2, 11)
  return s.native_handle();
#else
  throw std::runtime_error("this program is built for libtorch " TORCH_VERSION ", want 2.11 or later");
#endif
}

// together runs calls of NCCL as one.
template <typename F>
void together(psn_group *g, F calls) {
  sound(nccl().groupStart(), "starting a group of calls");
  calls();
  sound(nccl().groupEnd(), "calling together", g->comm);
}

psn_state state(psn_group *g, int (*done)(psn_group *)) {
  psn_state s{0, nullptr};
  s.error = guarded([&] { s.done = done(g); });
  return s;
}

// within runs something on the group's device and stream.
template <typename F>
char *within(psn_group *g, F f) {
  return guarded([&] {
    c10::NoGradGuard no_grad;
    const c10::DeviceGuard on(g->device);
    const c10::StreamGuard beside(g->stream);
    f();
  });
}

// add_up adds the shares of the slice along a binary tree over the ranks.
at::Tensor add_up(const at::Tensor &shares, int world) {
  for (int width = 1; width < world; width *= 2) {
    for (int i = 0; i + width < world; i += 2 * width) {
      shares[i].add_(shares[i + width]);
    }
  }
  return shares[0];
}

}  // namespace

char *psn_new_id(unsigned char *id) {
  return guarded([&] {
    NcclId made;
    sound(nccl().getUniqueId(&made), "making an id");
    std::memcpy(id, made.bytes, sizeof made.bytes);
  });
}

psn_group_result psn_open(const unsigned char *id, int rank, int world, const char *device) {
  psn_group_result r{nullptr, nullptr};
  r.error = guarded([&] {
    c10::Device to{std::string(device)};
    TORCH_CHECK(to.is_cuda(), "the device is ", to, ", want a GPU");
    const c10::impl::VirtualGuardImpl devices(to.type());
    if (!to.has_index()) {
      to = devices.getDevice();
    }
    const c10::DeviceGuard on(to);
    auto g = std::unique_ptr<psn_group>(new psn_group{to, devices.getStreamFromGlobalPool(to), rank, world});
    native(g->stream);
    NcclId of;
    std::memcpy(of.bytes, id, sizeof of.bytes);
    NcclConfig config;
    sound(nccl().commInitRankConfig(&g->comm, world, of, rank, &config), "joining the other ranks", g->comm);
    r.group = g.release();
  });
  return r;
}

psn_state psn_ready(psn_group *g) {
  return state(g, [](psn_group *g) {
    int code = kSuccess;
    sound(nccl().commGetAsyncError(g->comm, &code), "asking how far it is", g->comm);
    sound(code, "exchanging with the other ranks", g->comm);
    return static_cast<int>(code == kSuccess);
  });
}

psn_room_result psn_room(psn_group *g, int64_t values) {
  psn_room_result r{nullptr, nullptr};
  r.error = within(g, [&] {
    if (!g->host.defined() || g->host.numel() < values) {
      g->host = at::empty({values}, at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
    }
    g->mine = at::empty({values}, at::TensorOptions().dtype(at::kFloat).device(g->device));
    g->pieces = at::empty({g->world, g->of(g->rank)}, g->mine.options());
    r.values = g->host.data_ptr<float>();
  });
  return r;
}

char *psn_scatter(psn_group *g) {
  return within(g, [&] {
    g->mine.copy_(g->host.narrow(0, 0, g->size()), /*non_blocking=*/true);
    g->pieces[g->rank].copy_(g->mine.narrow(0, g->from(g->rank), g->of(g->rank)));
    together(g, [&] {
      for (int other = 0; other < g->world; other++) {
        if (other != g->rank) {
          sound(nccl().send(g->at(other), g->of(other), kFloat32, other, g->comm, native(g->stream)), "sending shares");
          sound(nccl().recv(g->pieces[other].data_ptr(), g->of(g->rank), kFloat32, other, g->comm, native(g->stream)), "taking shares");
        }
      }
    });
  });
}

char *psn_gather(psn_group *g) {
  return within(g, [&] {
    const at::Tensor sum = add_up(g->pieces, g->world);
    g->mine.narrow(0, g->from(g->rank), g->of(g->rank)).copy_(sum);
    together(g, [&] {
      for (int other = 0; other < g->world; other++) {
        if (other != g->rank) {
          sound(nccl().send(g->at(g->rank), g->of(g->rank), kFloat32, other, g->comm, native(g->stream)), "sending a sum");
          sound(nccl().recv(g->at(other), g->of(other), kFloat32, other, g->comm, native(g->stream)), "taking a sum");
        }
      }
    });
  });
}

char *psn_fetch(psn_group *g) {
  return within(g, [&] {
    g->host.narrow(0, 0, g->size()).copy_(g->mine, /*non_blocking=*/true);
    g->done = std::make_unique<c10::Event>(g->device.type());
    g->done->record(g->stream);
  });
}

psn_state psn_arrived(psn_group *g) {
  return state(g, [](psn_group *g) { return static_cast<int>(g->done->query()); });
}

char *psn_close(psn_group *g) {
  char *error = within(g, [&] {
    nccl().commAbort(g->comm);  // the ranks leave one another: nobody would hear what it says
    c10::impl::VirtualGuardImpl(g->device.type()).synchronizeStream(g->stream);
  });
  delete g;
  return error;
}
