// Choosing the Ops table of this processor.
#include "ops.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "guard.h"

namespace ps {
namespace {

const Ops* available(const char* name) {
  if (!std::strcmp(name, ops_portable.name)) return &ops_portable;
#if defined(__x86_64__)
  if (!std::strcmp(name, ops_avx2.name) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c"))
    return &ops_avx2;
  if (!std::strcmp(name, ops_avx512.name) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi"))
    return &ops_avx512;
#endif
  return nullptr;
}

// widest heeds the switch of internal/base/instructions.
const Ops* widest() {
  const char* limit = std::getenv("PAIRSTREAM_INSTRUCTIONS");
  bool allowed = limit == nullptr || !*limit;
  for (const char* name : {"avx512", "avx2"}) {
    allowed = allowed || !std::strcmp(limit, name);
    const Ops* o = allowed ? available(name) : nullptr;
    if (o) return o;
  }
  return &ops_portable;
}

std::atomic<const Ops*> chosen{nullptr};

}  // namespace

const Ops& ops() {
  const Ops* o = chosen.load(std::memory_order_acquire);
  if (!o) {
    o = widest();
    chosen.store(o, std::memory_order_release);
  }
  return *o;
}

bool select_ops(const char* name) {
  const Ops* o = *name ? available(name) : widest();
  if (o) chosen.store(o, std::memory_order_release);
  return o != nullptr;
}

}  // namespace ps

std::atomic<int64_t> ps::live_handles{0};

void ps_free_text(char* text) { std::free(text); }
int64_t ps_live_handles(void) { return ps::live_handles.load(std::memory_order_relaxed); }
int ps_select_ops(const char* name) { return ps::select_ops(name); }
