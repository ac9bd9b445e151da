// What this package calls of NCCL, loaded when it is first asked for. PyTorch brings the library along. Its header is not
// needed to compile, so one program runs with and without it.
#ifndef PAIRSTREAM_NCCL_LIBRARY_HPP
#define PAIRSTREAM_NCCL_LIBRARY_HPP

#include <dlfcn.h>

#include <climits>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "nccl.h"

namespace pairstream {

// These are as NCCL 2.17 and later have them.
struct NcclId {
  char bytes[PSN_ID_BYTES];
};
using NcclComm = struct ncclComm *;
constexpr int kSuccess = 0, kInProgress = 7, kFloat32 = 7;

// NcclConfig has NCCL's defaults, but for calls that return before they are done.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef;
  unsigned int version = 21700;
  int blocking = 0;
  int cluster = INT_MIN, least = INT_MIN, most = INT_MIN;
  const char *network = nullptr;
  int split = INT_MIN;
};

struct Nccl {
  int (*getUniqueId)(NcclId *);
  int (*commInitRankConfig)(NcclComm *, int, NcclId, int, NcclConfig *);
  int (*commAbort)(NcclComm);
  int (*commGetAsyncError)(NcclComm, int *);
  const char *(*getErrorString)(int);
  const char *(*getLastError)(NcclComm);
  int (*groupStart)();
  int (*groupEnd)();
  int (*send)(const void *, size_t, int, int, NcclComm, void *);
  int (*recv)(void *, size_t, int, int, NcclComm, void *);
};

inline const Nccl &nccl() {
  static const Nccl loaded = [] {
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (library == nullptr) {
      throw std::runtime_error(dlerror());
    }
    Nccl all{};
    const auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr) {
        throw std::runtime_error(std::string("libnccl.so.2 has no ") + name + ", want NCCL 2.17 or later");
      }
    };
    find(all.getUniqueId, "ncclGetUniqueId");
    find(all.commInitRankConfig, "ncclCommInitRankConfig");
    find(all.commAbort, "ncclCommAbort");
    find(all.commGetAsyncError, "ncclCommGetAsyncError");
    find(all.getErrorString, "ncclGetErrorString");
    find(all.getLastError, "ncclGetLastError");
    find(all.groupStart, "ncclGroupStart");
    find(all.groupEnd, "ncclGroupEnd");
    find(all.send, "ncclSend");
    find(all.recv, "ncclRecv");
    return all;
  }();
  return loaded;
}

// sound throws unless NCCL has done something, or has begun it.
inline void sound(int code, const char *what, NcclComm of = nullptr) {
  if (code != kSuccess && code != kInProgress) {
    std::string why = std::string(what) + ": " + nccl().getErrorString(code);
    const char *more = of == nullptr ? nullptr : nccl().getLastError(of);
    throw std::runtime_error(more == nullptr || *more == 0 ? why : why + " (" + more + ")");
  }
}

}  // namespace pairstream

#endif
