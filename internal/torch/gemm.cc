// Of the libraries that come with libtorch, oneDNN makes its code for the processor at hand and is good at small sizes
// too (two to three times faster than OpenBLAS at those of an attention head). Where it is not to be seen from outside
// libtorch, the BLAS is taken, and otherwise libtorch itself.
#include "gemm.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>

#include <atomic>
#include <stdexcept>

namespace pairstream {
namespace {

using dnnl_fn = int (*)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t,
                        float, float *, int64_t);
using blas_fn = void (*)(const char *, const char *, const int *, const int *, const int *, const float *,
                         const float *, const int *, const float *, const int *, const float *, float *, const int *);

const auto dnnl = reinterpret_cast<dnnl_fn>(dlsym(RTLD_DEFAULT, "dnnl_sgemm"));
const auto blas = reinterpret_cast<blas_fn>(dlsym(RTLD_DEFAULT, "sgemm_"));

void with_dnnl(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c, int64_t stride) {
  if (dnnl(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns, inner, 1, a.data, a.stride, b.data,
           b.stride, add ? 1 : 0, c, stride) != 0) {
    throw std::runtime_error("oneDNN refuses a matrix product");
  }
}

void with_blas(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c, int64_t stride) {
  // BLAS has columns where we have rows: it multiplies the transposed matrices, the other way round.
  const int m = static_cast<int>(columns), n = static_cast<int>(rows), k = static_cast<int>(inner);
  const int ldb = static_cast<int>(b.stride), lda = static_cast<int>(a.stride), ldc = static_cast<int>(stride);
  const float one = 1, beta = add ? 1 : 0;
  blas(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &m, &n, &k, &one, b.data, &ldb, a.data, &lda, &beta, c,
       &ldc);
}

at::Tensor view(Matrix m, int64_t rows, int64_t columns) {
  auto *data = const_cast<float *>(m.data);
  return m.transposed ? at::from_blob(data, {rows, columns}, {1, m.stride}, at::kFloat)
                      : at::from_blob(data, {rows, columns}, {m.stride, 1}, at::kFloat);
}

void with_libtorch(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c,
                   int64_t stride) {
  c10::NoGradGuard no_grad;
  at::Tensor product = at::mm(view(a, rows, inner), view(b, inner, columns));
  at::Tensor into = view({c, stride}, rows, columns);
  add ? into.add_(product) : into.copy_(product);
}

struct Multiplier {
  const char *name;
  bool there;
  void (*multiply)(int64_t, int64_t, int64_t, Matrix, Matrix, bool, float *, int64_t);
};

const Multiplier multipliers[] = {
    {"oneDNN", dnnl != nullptr, with_dnnl}, {"BLAS", blas != nullptr, with_blas}, {"libtorch", true, with_libtorch}};

std::atomic<const Multiplier *> chosen{nullptr};

}  // namespace

void choose_gemm(const std::string &name) {
  for (const Multiplier &m : multipliers) {
    if (m.there && (name.empty() || name == m.name)) {
      chosen = &m;
      return;
    }
  }
  throw std::invalid_argument("no " + name + " to multiply matrices with");
}

const char *gemm_name() { return chosen.load()->name; }

void gemm(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c, int64_t stride) {
  chosen.load(std::memory_order_relaxed)->multiply(rows, columns, inner, a, b, add, c, stride);
}

}  // namespace pairstream
