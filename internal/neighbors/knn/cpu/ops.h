// The arithmetic that everything here is made of, once per instruction set (ops_*.cpp), chosen when the program starts.
//
// Candidates are found in fixed point: a row x is rounded to the integers round(S*x), and dot products of such rows are
// exact sums of int16 products in int32. So every instruction set gives the same integers, in any order of summation,
// and the distance between S*S*(x.y) and the integer is bounded by the rounding residuals (Cauchy-Schwarz).
// Decisions are made by dot(), in float64 and in one fixed order of summation.
#pragma once
#include <cstdint>

namespace ps {

constexpr int MR = 6;    // rows of one multiplication
constexpr int NR = 64;   // columns of one multiplication
constexpr int MOST_CODE = 127, MOST_QUERY = 4095;  // the largest integers of an 8-bit row and of its query
constexpr int LANES = 16;  // partial sums of dot(): element i goes to partial sum i mod 16

// Rows is a row-major matrix of float16 or float32 values.
struct Rows {
  const void* data;
  int64_t n;
  int32_t d;
  bool half;

  const uint16_t* h(int64_t i) const { return static_cast<const uint16_t*>(data) + i * d; }
  const float* f(int64_t i) const { return static_cast<const float*>(data) + i * d; }
};

// Hit is an element of a product that reached its row's or its column's threshold.
struct Hit {
  int32_t row, col, value;
};

// CodeHit is a row of codes that reached a query's bound.
struct CodeHit {
  int32_t query, row;
  float score;
};

struct Ops {
  const char* name;
  // mul computes out[MR][NR] = bias[NR] + a * panel: a is MR rows of int16 pairs, lda pairs apart, panel[pairs][NR].
  void (*mul)(const int32_t* a, int64_t lda, const int32_t* panel, int pairs, const int32_t* bias, int32_t* out);
  // scan lists the elements of out that are not below row_min[MR] or not below col_min[NR]; returns how many.
  int (*scan)(const int32_t* out, const int32_t* row_min, const int32_t* col_min, Hit* hits);
  // quantize rounds one row to fixed point (nearest, ties to even; saturated): out[2*pairs], zero after element d.
  void (*quantize_half)(const uint16_t* x, int d, float scale, int16_t* out, int pairs);
  void (*quantize_float)(const float* x, int d, float scale, int16_t* out, int pairs);
  // dot is the canonical score. Products of two float32 (or narrower) values are exact in float64, so it does not
  // matter whether they are fused; with float16 rows of norm 1 the sums are exact as well.
  double (*dot_hh)(const uint16_t* a, const uint16_t* b, int d);
  double (*dot_hf)(const uint16_t* a, const float* b, int d);
  double (*dot_ff)(const float* a, const float* b, int d);
  // similarity is a quick float32 dot product for live search, where nothing has to be reproducible.
  float (*similarity)(const float* q, const uint16_t* row, int d);
  // code_hits multiplies a query of int16 with n rows of int8, exactly, and lists the rows whose product, times their scale, is
  // not below least; returns how many.
  int (*code_hits)(const int16_t* q, const int8_t* rows, const float* scales, int n, int d, float least, CodeHit* hits);
  // encode rounds a row of float16 to codes, and returns what one of them stands for.
  float (*encode)(const uint16_t* row, int d, int8_t* codes);
  // code_scan lists the elements of out, times their row's scale, that are not below least[NR] of their column; returns how
  // many.
  int (*code_scan)(const int32_t* out, const float* scale, const float* least, CodeHit* hits);
  // widen converts d float16 values.
  void (*widen)(const uint16_t* x, int d, float* out);
};

// ops is the widest table that this processor can run, or the one chosen by select_ops.
const Ops& ops();

// select_ops makes ops() return the table of that name; false when this processor has no such table. For tests.
bool select_ops(const char* name);

extern const Ops ops_portable;
#if defined(__x86_64__)
extern const Ops ops_avx2;
extern const Ops ops_avx512;
#endif

}  // namespace ps
