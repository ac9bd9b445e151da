// The process and its device.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <dlfcn.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <cstdlib>

#include "gemm.hpp"
#include "guard.hpp"
#include "pool.hpp"

using namespace pairstream;

namespace {

// load_cuda loads libtorch's part for CUDA, where there is one, and says why not otherwise. The program is not linked
// with it, so that one build runs with and without CUDA's libraries, which take gigabytes. libtorch counts devices when
// it is first asked for one: this comes before.
const std::string &load_cuda() {
  static const std::string *problem = [] {
    void *library = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL);
    const char *error = library == nullptr ? dlerror() : nullptr;
    return new std::string(error == nullptr ? "" : error);
  }();
  return *problem;
}

}  // namespace

void ps_prepare(void) {
#ifdef __GLIBC__
  // A step makes and frees the same tensors again and again. By default the large ones go back to the system each time,
  // and their pages are zeroed and mapped anew: a tenth of the time of a step.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
  load_cuda();
}

// set_environment runs before there are other threads, which may read the environment. cuBLAS reads this when its first
// handle is made; without it matrix products are refused in deterministic mode.
__attribute__((constructor)) static void set_environment() { setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0); }

char *ps_init(const char *device, int threads, int deterministic, const char *multiplier) {
  return guarded([&] {
    at::Device d{std::string(device)};
    if (d.is_cuda() && !at::hasCUDA()) {
      const std::string &problem = load_cuda();
      throw std::runtime_error(problem.empty() ? "libtorch finds no CUDA device"
                                               : "this libtorch cannot use CUDA: " + problem);
    }
    // libtorch's own operations and the BLAS run on the calling thread; see pool.hh for why.
    at::set_num_threads(1);
    using set_fn = void (*)(int);
    if (auto set = reinterpret_cast<set_fn>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) {
      set(1);
    }
    choose_gemm(multiplier);
    start_pool(threads);
    // Products of float16 are summed up in float32 to the end, also where cuBLAS splits a sum.
    at::globalContext().setAllowFP16ReductionCuBLAS(false);
    if (deterministic) {
      at::globalContext().setDeterministicAlgorithms(true, false);
      at::globalContext().setDeterministicCuDNN(true);
      at::globalContext().setBenchmarkCuDNN(false);
#if PS_LIBTORCH(2, 4)
      // It would write NaN into all fresh memory. Every operation here writes all of its result.
      at::globalContext().setDeterministicFillUninitializedMemory(false);
#endif
    }
  });
}

int ps_cuda_available(void) {
  load_cuda();
  return at::hasCUDA() ? 1 : 0;
}

const char *ps_version(void) { return TORCH_VERSION; }

char *ps_built(void) { return strdup(at::show_config().c_str()); }

const char *ps_multiplier(void) { return gemm_name(); }

char *ps_blas(void) {
  if (at::hasMKL()) {
    return strdup("MKL");
  }
  using config_fn = char *(*)();
  if (auto config = reinterpret_cast<config_fn>(dlsym(RTLD_DEFAULT, "openblas_get_config"))) {
    return strdup(config());
  }
  Dl_info where;
  if (void *gemm = dlsym(RTLD_DEFAULT, "sgemm_"); gemm != nullptr && dladdr(gemm, &where) != 0) {
    return strdup((std::string("generic ") + where.dli_fname).c_str());
  }
  return strdup("unknown");
}
