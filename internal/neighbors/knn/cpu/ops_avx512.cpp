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

#define similarity similarity_of_8  // wider here
#include "ops_body.h"
#undef similarity

float similarity(const float* q, const uint16_t* row, int d) {
  __m512 s[2] = {};
  for (int i = 0; i < d; i += 16) {
    const __mmask16 mask = d - i < 16 ? (uint32_t{1} << (d - i)) - 1 : 0xffff;
    const __m512 x = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, row + i));
    s[i / 16 % 2] = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(mask, q + i), x, s[i / 16 % 2]);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(s[0], s[1]));
}

// fold halves a number of registers: each adds up two halves of two of them. From 16 to 1, the sum of register r comes to the
// place whose number has the bits of r in the other order.
template <int N>
inline __attribute__((always_inline)) void fold(__m512i* s) {
#pragma GCC unroll 8
  for (int r = 0; r < N / 2; r++) {
    const __m512i a = s[r], b = s[r + N / 2];
    if (N == 16)
      s[r] = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    else if (N == 8)
      s[r] = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    else
      s[r] = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
  }
}

// code_hits multiplies 16 rows at a time. The last row is there several times when there are fewer.
int code_hits(const int16_t* q, const int8_t* rows, const float* scales, int n, int d, float least, CodeHit* hits) {
  static constexpr int places[16] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};
  int found = 0;
  for (int from = 0; from < n; from += 16) {
    const int some = n - from < 16 ? n - from : 16;
    __m512i s[16];
    for (int r = 0; r < 16; r += 4) {  // few rows at a time are read in order
      const int8_t* at[4];
      for (int i = 0; i < 4; i++) at[i] = rows + static_cast<int64_t>(from + (r + i < some ? r + i : some - 1)) * d;
      __m512i sum[4] = {};
      int j = 0;
      for (; j + 32 <= d; j += 32) {
        const __m512i x = _mm512_loadu_si512(q + j);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
          sum[i] = _mm512_dpwssd_epi32(sum[i], x, _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i*)(at[i] + j))));
      }
      if (j < d) {
        const __mmask32 mask = (uint32_t{1} << (d - j)) - 1;
        const __m512i x = _mm512_maskz_loadu_epi16(mask, q + j);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
          sum[i] = _mm512_dpwssd_epi32(sum[i], x, _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, at[i] + j)));
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++) s[places[r + i]] = sum[i];
    }
    fold<16>(s), fold<8>(s), fold<4>(s), fold<2>(s);
    const __mmask16 real = (uint32_t{1} << some) - 1;
    const __m512 scores = _mm512_mul_ps(_mm512_cvtepi32_ps(s[0]), _mm512_maskz_loadu_ps(real, scales + from));
    uint32_t reached = _mm512_mask_cmp_ps_mask(real, scores, _mm512_set1_ps(least), _CMP_GE_OQ);
    if (!reached) continue;
    float score[16];
    _mm512_storeu_ps(score, scores);
    for (; reached; reached &= reached - 1) {
      const int r = __builtin_ctz(reached);
      hits[found++] = CodeHit{0, from + r, score[r]};
    }
  }
  return found;
}

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
                        dot_hh,   dot_hf, dot_ff, similarity,    code_hits, encode, code_scan, widen};

}  // namespace ps
#endif
