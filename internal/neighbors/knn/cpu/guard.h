// What every exported function shares: exceptions become text, and handles are counted.
#pragma once
#include <atomic>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "cpu.h"
#include "fixed.h"

namespace ps {

extern std::atomic<int64_t> live_handles;

// Handle is a base of everything that Go holds by pointer.
struct Handle {
  Handle() { live_handles.fetch_add(1, std::memory_order_relaxed); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { live_handles.fetch_sub(1, std::memory_order_relaxed); }
};

inline char* text(const char* what) {
  char* copy = strdup(what);
  return copy ? copy : strdup("out of memory");
}

template <class F>
char* guarded(F&& f) noexcept {
  try {
    f();
    return nullptr;
  } catch (const std::bad_alloc&) {
    return text("out of memory");
  } catch (const std::exception& e) {
    return text(e.what());
  } catch (...) {
    return text("unknown exception");
  }
}

inline Rows rows_of(ps_rows r) { return Rows{r.data, r.n, r.d, r.half != 0}; }

}  // namespace ps
