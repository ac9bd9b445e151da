// The Ops of processors with AVX2 and F16C (x86-64-v3).
#if defined(__x86_64__)
#include <immintrin.h>

#include "ops.h"

#pragma GCC target("avx2,fma,f16c")

namespace ps {
namespace {

typedef float widened __attribute__((vector_size(32)));
typedef int32_t integers __attribute__((vector_size(32)));

inline __attribute__((always_inline)) widened load8(const uint16_t* x) {
  return (widened)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}

inline __attribute__((always_inline)) integers nearest8(widened x) {
  return (integers)_mm256_cvtps_epi32((__m256)x);
}

// sum8 is two registers of four sums.
struct sum8 {
  __m256d low, high;
};

inline __attribute__((always_inline)) void add_products(sum8& s, widened a, widened b) {
  const __m256 x = (__m256)a, y = (__m256)b;
  s.low = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_castps256_ps128(y)), s.low);
  s.high = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)), _mm256_cvtps_pd(_mm256_extractf128_ps(y, 1)), s.high);
}

#include "ops_body.h"

int code_hits(const int16_t* q, const int8_t* rows, const float* scales, int n, int d, float least, CodeHit* hits) {
  int found = 0;
  for (int i = 0; i < n; i++) {
    const float score = static_cast<float>(code_dot(q, rows + static_cast<int64_t>(i) * d, d)) * scales[i];
    if (score >= least) hits[found++] = CodeHit{0, i, score};
  }
  return found;
}

void mul(const int32_t* a, int64_t lda, const int32_t* panel, int pairs, const int32_t* bias, int32_t* out) {
  for (int j = 0; j < NR; j += 16) {  // 6 x 16: twelve accumulators in sixteen registers
    __m256i c[MR][2];
#pragma GCC unroll 6
    for (int i = 0; i < MR; i++)
      for (int v = 0; v < 2; v++) c[i][v] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bias + j + 8 * v));
    for (int p = 0; p < pairs; p++) {
      const int32_t* row = panel + static_cast<int64_t>(p) * NR + j;
      const __m256i b0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row));
      const __m256i b1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 8));
#pragma GCC unroll 6
      for (int i = 0; i < MR; i++) {
        const __m256i x = _mm256_set1_epi32(a[i * lda + p]);
        c[i][0] = _mm256_add_epi32(c[i][0], _mm256_madd_epi16(x, b0));
        c[i][1] = _mm256_add_epi32(c[i][1], _mm256_madd_epi16(x, b1));
      }
    }
#pragma GCC unroll 6
    for (int i = 0; i < MR; i++)
      for (int v = 0; v < 2; v++) _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i * NR + j + 8 * v), c[i][v]);
  }
}

int scan(const int32_t* out, const int32_t* row_min, const int32_t* col_min, Hit* hits) {
  int n = 0;
  for (int i = 0; i < MR; i++) {
    const __m256i r = _mm256_set1_epi32(row_min[i]);
    for (int j = 0; j < NR; j += 8) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(out + i * NR + j));
      const __m256i c = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(col_min + j));
      const __m256i below = _mm256_and_si256(_mm256_cmpgt_epi32(r, v), _mm256_cmpgt_epi32(c, v));
      for (unsigned m = ~_mm256_movemask_ps(_mm256_castsi256_ps(below)) & 0xff; m; m &= m - 1) {
        const int at = j + __builtin_ctz(m);
        hits[n++] = Hit{i, at, out[i * NR + at]};
      }
    }
  }
  return n;
}

}  // namespace

const Ops ops_avx2 = {"avx2", mul,    scan,   quantize_half, quantize_float,
                      dot_hh, dot_hf, dot_ff, similarity,    code_hits, encode, code_scan, widen};

}  // namespace ps
#endif
