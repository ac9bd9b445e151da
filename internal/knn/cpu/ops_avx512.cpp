// The Ops of processors with AVX-512 VNNI: 64 multiplications of int16 a cycle, twice what float32 gives.
#if defined(__x86_64__)
#include <immintrin.h>

#include "ops.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c,bmi")

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

typedef __m512d sum8;

inline __attribute__((always_inline)) void add_products(sum8& s, widened a, widened b) {
  s = _mm512_fmadd_pd(_mm512_cvtps_pd((__m256)a), _mm512_cvtps_pd((__m256)b), s);
}

#include "ops_body.h"

void mul(const int32_t* a, int64_t lda, const int32_t* panel, int pairs, const int32_t* bias, int32_t* out) {
  __m512i c[MR][4];  // 24 accumulators, 4 columns and a broadcast: 29 of 32 registers
#pragma GCC unroll 6
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) c[i][j] = _mm512_loadu_si512(bias + 16 * j);
  for (int p = 0; p < pairs; p++) {
    __m512i b[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) b[j] = _mm512_loadu_si512(panel + static_cast<int64_t>(p) * NR + 16 * j);
#pragma GCC unroll 6
    for (int i = 0; i < MR; i++) {
      const __m512i x = _mm512_set1_epi32(a[i * lda + p]);
#pragma GCC unroll 4
      for (int j = 0; j < 4; j++) c[i][j] = _mm512_dpwssd_epi32(c[i][j], x, b[j]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) _mm512_storeu_si512(out + i * NR + 16 * j, c[i][j]);
}

int scan(const int32_t* out, const int32_t* row_min, const int32_t* col_min, Hit* hits) {
  int n = 0;
  __m512i c[4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; j++) c[j] = _mm512_loadu_si512(col_min + 16 * j);
  for (int i = 0; i < MR; i++) {
    const __m512i r = _mm512_set1_epi32(row_min[i]);
    uint64_t found = 0;
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      const __m512i v = _mm512_loadu_si512(out + i * NR + 16 * j);
      const __mmask16 m = _mm512_cmpge_epi32_mask(v, r) | _mm512_cmpge_epi32_mask(v, c[j]);
      found |= static_cast<uint64_t>(m) << (16 * j);
    }
    for (; found; found &= found - 1) {
      const int at = __builtin_ctzll(found);
      hits[n++] = Hit{i, at, out[i * NR + at]};
    }
  }
  return n;
}

}  // namespace

const Ops ops_avx512 = {"avx512", mul,    scan,   quantize_half, quantize_float,
                        dot_hh,   dot_hf, dot_ff, similarity,    code_dot, code_scan, widen};

}  // namespace ps
#endif
