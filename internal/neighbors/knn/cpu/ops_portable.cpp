// The Ops of any processor, in plain C++.
#include "ops.h"

namespace ps {
namespace {

// half_to_float widens one float16 by moving its bits; the multiplication rebiases the exponent, subnormals included.
inline float half_to_float(uint16_t h) {
  uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
  float f;
  __builtin_memcpy(&f, &magnitude, sizeof f);
  f *= 0x1p112f;
  uint32_t bits;
  __builtin_memcpy(&bits, &f, sizeof bits);
  if ((h & 0x7c00) == 0x7c00) bits |= 0x7f800000;  // infinities and NaNs
  bits |= static_cast<uint32_t>(h & 0x8000) << 16;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}

typedef float widened __attribute__((vector_size(32)));
typedef int32_t integers __attribute__((vector_size(32)));

inline widened load8(const uint16_t* x) {
  widened w;
  for (int i = 0; i < 8; i++) w[i] = half_to_float(x[i]);
  return w;
}

inline integers nearest8(widened x) {
  integers v;
  for (int i = 0; i < 8; i++) v[i] = static_cast<int32_t>(__builtin_nearbyintf(x[i]));
  return v;
}

// sum8 is two registers of four sums.
struct sum8 {
  typedef double f64x4 __attribute__((vector_size(32)));
  f64x4 low, high;
};

inline __attribute__((always_inline)) void add_products(sum8& s, widened a, widened b) {
  typedef float f32x4 __attribute__((vector_size(16)));
  const f32x4 a0 = {a[0], a[1], a[2], a[3]}, a1 = {a[4], a[5], a[6], a[7]};
  const f32x4 b0 = {b[0], b[1], b[2], b[3]}, b1 = {b[4], b[5], b[6], b[7]};
  s.low += __builtin_convertvector(a0, sum8::f64x4) * __builtin_convertvector(b0, sum8::f64x4);
  s.high += __builtin_convertvector(a1, sum8::f64x4) * __builtin_convertvector(b1, sum8::f64x4);
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
  for (int i = 0; i < MR; i++) {
    int32_t acc[NR];
    __builtin_memcpy(acc, bias, sizeof acc);
    const int16_t* x = reinterpret_cast<const int16_t*>(a + i * lda);
    for (int p = 0; p < pairs; p++) {
      const int16_t* b = reinterpret_cast<const int16_t*>(panel + static_cast<int64_t>(p) * NR);
      const int32_t x0 = x[2 * p], x1 = x[2 * p + 1];
      for (int j = 0; j < NR; j++) acc[j] += x0 * b[2 * j] + x1 * b[2 * j + 1];
    }
    __builtin_memcpy(out + i * NR, acc, sizeof acc);
  }
}

int scan(const int32_t* out, const int32_t* row_min, const int32_t* col_min, Hit* hits) {
  int n = 0;
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) {
      const int32_t v = out[i * NR + j];
      if (v >= row_min[i] || v >= col_min[j]) hits[n++] = Hit{i, j, v};
    }
  return n;
}

}  // namespace

const Ops ops_portable = {"portable", mul,    scan,   quantize_half, quantize_float,
                          dot_hh,     dot_hf, dot_ff, similarity,    code_hits, encode, code_scan, widen};

}  // namespace ps
