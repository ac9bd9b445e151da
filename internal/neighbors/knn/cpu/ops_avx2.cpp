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

// four_sums adds up the lanes of each of four registers.
inline __attribute__((always_inline)) __m128i four_sums(const __m256i* s) {
  const __m256i sum = _mm256_hadd_epi32(_mm256_hadd_epi32(s[0], s[1]), _mm256_hadd_epi32(s[2], s[3]));
  return _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

// code_hits multiplies 8 rows at a time, 4 in order. The last row is there several times when there are fewer.
int code_hits(const int16_t* q, const int8_t* rows, const float* scales, int n, int d, float least, CodeHit* hits) {
  int found = 0;
  for (int from = 0; from < n; from += 8) {
    const int some = n - from < 8 ? n - from : 8;
    int32_t product[8];
    for (int r = 0; r < 8; r += 4) {
      const int8_t* at[4];
      for (int i = 0; i < 4; i++) at[i] = rows + static_cast<int64_t>(from + (r + i < some ? r + i : some - 1)) * d;
      __m256i sum[4] = {};
      int j = 0;
      for (; j + 16 <= d; j += 16) {
        const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + j));
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
          const __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at[i] + j)));
          sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(x, y));
        }
      }
      _mm_storeu_si128(reinterpret_cast<__m128i*>(product + r), four_sums(sum));
      if (j < d)
        for (int i = 0; i < 4; i++) product[r + i] += code_dot(q + j, at[i] + j, d - j);
    }
    float scale[8] = {}, score[8];
    __builtin_memcpy(scale, scales + from, some * sizeof(float));
    const __m256 scores =
        _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(product))), _mm256_loadu_ps(scale));
    unsigned reached = _mm256_movemask_ps(_mm256_cmp_ps(scores, _mm256_set1_ps(least), _CMP_GE_OQ)) & ((1u << some) - 1);
    if (!reached) continue;
    _mm256_storeu_ps(score, scores);
    for (; reached; reached &= reached - 1) {
      const int r = __builtin_ctz(reached);
      hits[found++] = CodeHit{0, from + r, score[r]};
    }
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
