// Exceptions as texts, for a C interface.
#pragma once
#include <cstring>
#include <exception>
#include <new>

inline char* text(const char* what) {
  char* copy = strdup(what);
  return copy ? copy : strdup("out of memory");
}

// guarded turns an exception into text.
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
