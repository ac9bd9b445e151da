// Products of float32 matrices on the CPU, on the calling thread alone.
#ifndef PAIRSTREAM_TORCH_GEMM_HPP
#define PAIRSTREAM_TORCH_GEMM_HPP

#include <cstdint>
#include <string>

namespace pairstream {

// Matrix is rows x columns within a larger one: element (i, j) is at data[i * stride + j]; transposed, at
// data[j * stride + i].
struct Matrix {
  const float *data;
  int64_t stride;
  bool transposed = false;
};

// gemm adds a (rows x inner) times b (inner x columns) to c, or puts it there when add is false.
void gemm(int64_t rows, int64_t columns, int64_t inner, Matrix a, Matrix b, bool add, float *c, int64_t stride);

// choose_gemm says what multiplies: "oneDNN", "BLAS" or "libtorch"; "" is the first of them that is there. It throws
// when there is no such thing.
void choose_gemm(const std::string &name);

// gemm_name is the name of what multiplies.
const char *gemm_name();

}  // namespace pairstream

#endif
