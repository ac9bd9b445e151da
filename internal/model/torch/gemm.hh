// Of the libraries that come with libtorch, oneDNN makes its code for the processor at hand and is good at small sizes
// too (two to three times faster than OpenBLAS at those of an attention head). Where it is not to be seen from outside
// libtorch, the BLAS is taken, and otherwise libtorch itself.
#include "gemm.hpp"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <initializer_list>
#include <stdexcept>
#include <utility>
#include <vector>

namespace pairstream {
namespace {

template <typename T>
using dnnl_fn = int (*)(char, char, int64_t, int64_t, int64_t, float, const T *, int64_t, const T *, int64_t, float,
                        float *, int64_t);
template <typename T>
using blas_fn = void (*)(const char *, const char *, const int *, const int *, const int *, const float *, const T *,
                         const int *, const T *, const int *, const float *, float *, const int *);
using bfloat16 = c10::BFloat16;

// find is the first of the functions that is there, or null.
template <typename F>
F find(std::initializer_list<const char *> names) {
  for (const char *name : names) {
    if (void *f = dlsym(RTLD_DEFAULT, name)) {
      return reinterpret_cast<F>(f);
    }
  }
  return nullptr;
}

const auto dnnl = find<dnnl_fn<float>>({"dnnl_sgemm"});
const auto dnnl_bfloat16 = find<dnnl_fn<bfloat16>>({"dnnl_gemm_bf16bf16f32"});
const auto blas = find<blas_fn<float>>({"sgemm_"});
const auto blas_bfloat16 = find<blas_fn<bfloat16>>({"gemm_bf16bf16f32_", "sbgemm_"});  // MKL's and OpenBLAS's

template <typename T>
const T *of(const Matrix &m) {
  return static_cast<const T *>(m.data);
}

template <typename T>
int call_dnnl(dnnl_fn<T> f, int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c,
              int64_t stride) {
  return f(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns, inner, 1, of<T>(a), a.stride, of<T>(b),
           b.stride, add ? 1 : 0, c, stride);
}

void with_dnnl(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c, int64_t stride) {
  const int failed = a.bfloat16 ? call_dnnl(dnnl_bfloat16, rows, columns, inner, a, b, add, c, stride)
                            : call_dnnl(dnnl, rows, columns, inner, a, b, add, c, stride);
  if (failed != 0) {
    throw std::runtime_error("oneDNN refuses a matrix product");
  }
}

// dnnl_takes_bfloat16 asks: oneDNN refuses bfloat16 on a processor without vector units for it.
bool dnnl_takes_bfloat16() {
  static const bool takes = [] {
    const bfloat16 one(1);
    float product = 0;
    return dnnl_bfloat16 != nullptr && call_dnnl(dnnl_bfloat16, 1, 1, 1, {&one, 1}, {&one, 1}, false, &product, 1) == 0 &&
           product == 1;
  }();
  return takes;
}

template <typename T>
void call_blas(blas_fn<T> f, int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c,
               int64_t stride) {
  // BLAS has columns where we have rows: it multiplies the transposed matrices, the other way round.
  const int m = static_cast<int>(columns), n = static_cast<int>(rows), k = static_cast<int>(inner);
  const int ldb = static_cast<int>(b.stride), lda = static_cast<int>(a.stride), ldc = static_cast<int>(stride);
  const float one = 1, beta = add ? 1 : 0;
  f(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &m, &n, &k, &one, of<T>(b), &ldb, of<T>(a), &lda, &beta, c,
    &ldc);
}

void with_blas(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c, int64_t stride) {
  a.bfloat16 ? call_blas(blas_bfloat16, rows, columns, inner, a, b, add, c, stride)
         : call_blas(blas, rows, columns, inner, a, b, add, c, stride);
}

bool blas_takes_bfloat16() { return blas_bfloat16 != nullptr; }

at::Tensor view(Matrix m, int64_t rows, int64_t columns) {
  auto *data = const_cast<void *>(m.data);
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
  bool (*takes_bfloat16)();
};

bool never() { return false; }

const Multiplier multipliers[] = {
    {"oneDNN", dnnl != nullptr, with_dnnl, dnnl_takes_bfloat16},
    {"BLAS", blas != nullptr, with_blas, blas_takes_bfloat16},
    {"libtorch", true, with_libtorch, never}};

std::atomic<const Multiplier *> chosen{nullptr};

// widened copies a matrix of bfloat16 as float, row by row without gaps.
Matrix widened(const Matrix &m, int64_t rows, int64_t columns, std::vector<float> &to) {
  if (m.transposed) {
    std::swap(rows, columns);
  }
  to.resize(rows * columns);
  for (int64_t i = 0; i < rows; i++) {
    const bfloat16 *from = of<bfloat16>(m) + i * m.stride;
    std::copy(from, from + columns, to.begin() + i * columns);
  }
  return {to.data(), columns, m.transposed};
}

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
  const Multiplier *m = chosen.load(std::memory_order_relaxed);
  if (!a.bfloat16 || m->takes_bfloat16()) {
    m->multiply(rows, columns, inner, a, b, add, c, stride);
    return;
  }
  thread_local std::vector<float> left, right;
  m->multiply(rows, columns, inner, widened(a, rows, inner, left), widened(b, inner, columns, right), add, c, stride);
}

bool multiplies_in_bfloat16() { return dnnl_takes_bfloat16(); }

}  // namespace pairstream
