// The threads that share the work of one operation.
#ifndef PAIRSTREAM_TORCH_POOL_HPP
#define PAIRSTREAM_TORCH_POOL_HPP

#include <cstdint>

namespace pairstream {

constexpr int64_t kPart = 1 << 14;  // elements in one part of the work on a tensor's elements

// start_pool sets how many threads work, the caller of parallel included.
void start_pool(int threads);

// parallel_raw calls call(arg, i) once for every i in [0, n), on any of the threads, and returns when all are done. An
// exception of one of them is thrown again here.
void parallel_raw(int64_t n, void (*call)(void *, int64_t), void *arg);

// parallel is parallel_raw for a function object.
//
// Who computes which part is left to chance, so that a thread that the system keeps waiting holds nobody up. A part
// must therefore not depend on who computes it, nor the parts on the number of threads: then the bits do not either.
template <typename F>
void parallel(int64_t n, const F &f) {
  parallel_raw(
      n, [](void *arg, int64_t i) { (*static_cast<const F *>(arg))(i); },
      const_cast<void *>(static_cast<const void *>(&f)));
}

}  // namespace pairstream

#endif
