// Products of matrices on the CPU, on the calling thread alone: of float32, or of bfloat16 with sums in float32.
#ifndef PAIRSTREAM_TORCH_GEMM_HPP
#define PAIRSTREAM_TORCH_GEMM_HPP

#include <c10/util/BFloat16.h>

#include <cstdint>
#include <string>

namespace pairstream {

// Matrix is rows x columns within a larger one: element (i, j) is at data[i * stride + j]; transposed, at
// data[j * stride + i].
struct Matrix {
  const void *data;  // of at::BFloat16 when bfloat16 is set, of float otherwise
  int64_t stride;
  bool transposed, bfloat16;

  Matrix(const float *d, int64_t s, bool t = false) : data(d), stride(s), transposed(t), bfloat16(false) {}
  Matrix(const c10::BFloat16 *d, int64_t s, bool t = false) : data(d), stride(s), transposed(t), bfloat16(true) {}
};

// gemm adds a (rows x inner) times b (inner x columns), both of one type, to c, or puts it there when add is false. Where
// what multiplies knows no bfloat16, gemm widens the factors first: products and sums are of float32 in any case.
void gemm(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c, int64_t stride);

// choose_gemm says what multiplies: "oneDNN", "BLAS" or "libtorch"; "" is the first of them that is there. It throws
// when there is no such thing.
void choose_gemm(const std::string &name);

// gemm_name is the name of what multiplies.
const char *gemm_name();

// multiplies_in_bfloat16 says whether the processor has vector units for bfloat16. Without them libtorch's own operations
// also round the sums.
bool multiplies_in_bfloat16();

}  // namespace pairstream

#endif
