// Rows in fixed point: scale, error bound, and the two layouts that Ops::mul reads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "ops.h"

namespace ps {

constexpr int32_t LOWEST = std::numeric_limits<int32_t>::min();
constexpr int32_t HIGHEST = std::numeric_limits<int32_t>::max();

// LIMIT is the largest magnitude of a fixed-point value. A product of two rows stays below LIMIT^2 < 2^30 in
// magnitude, by Cauchy-Schwarz in every partial sum too, which leaves room for the bias of k-means in an int32.
constexpr double LIMIT = 32767;

// Buffer is uninitialized memory; large groups touch only what they use.
template <class T>
struct Buffer {
  T* p = nullptr;
  Buffer() = default;
  explicit Buffer(size_t n) { reset(n); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { std::free(p); }
  void reset(size_t n) {
    std::free(p);
    p = nullptr;
    if (n == 0) return;
    p = static_cast<T*>(std::malloc(n * sizeof(T)));
    if (!p) throw std::bad_alloc();
  }
  T& operator[](size_t i) { return p[i]; }
  const T& operator[](size_t i) const { return p[i]; }
};

inline double dot(const Rows& a, int64_t i, const Rows& b, int64_t j) {
  const Ops& o = ops();
  if (a.half) return b.half ? o.dot_hh(a.h(i), b.h(j), a.d) : o.dot_hf(a.h(i), b.f(j), a.d);
  return b.half ? o.dot_hf(b.h(j), a.f(i), a.d) : o.dot_ff(a.f(i), b.f(j), a.d);
}

inline int pairs_of(int d) { return (d + 1) / 2; }

inline void quantize(const Rows& x, int64_t i, float scale, int16_t* out) {
  if (x.half)
    ops().quantize_half(x.h(i), x.d, scale, out, pairs_of(x.d));
  else
    ops().quantize_float(x.f(i), x.d, scale, out, pairs_of(x.d));
}

// Fixed says how the rows of a matrix become integers: q = round(scale * x). norm bounds |x|, residual |x - q/scale|.
struct Fixed {
  float scale = 1;
  double norm = 0, residual = 0;
};

// measure_norm raises f.norm to the largest norm of rows [from, to); refuses values that are not finite.
inline void measure_norm(const Rows& x, int64_t from, int64_t to, double& norm) {
  for (int64_t i = from; i < to; i++) {
    const double sum = dot(x, i, x, i);
    if (!std::isfinite(sum)) throw std::invalid_argument("row " + std::to_string(i) + " has values that are not finite");
    norm = std::max(norm, std::sqrt(sum));
  }
}

inline float scale_for(double norm) { return norm > 0 ? static_cast<float>(LIMIT / norm) : 1.0f; }

// measure_residual raises residual to the largest rounding error of rows [from, to).
inline void measure_residual(const Rows& x, int64_t from, int64_t to, float scale, double& residual) {
  std::vector<int16_t> q(2 * pairs_of(x.d));
  std::vector<float> f(x.d);
  for (int64_t i = from; i < to; i++) {
    quantize(x, i, scale, q.data());
    const float* row = x.half ? f.data() : x.f(i);
    if (x.half) ops().widen(x.h(i), x.d, f.data());
    double sum = 0;
    for (int j = 0; j < x.d; j++) {
      const double e = row[j] - q[j] / static_cast<double>(scale);
      sum += e * e;
    }
    residual = std::max(residual, std::sqrt(sum));
  }
}

// error_bound is the most that an integer product can differ from scale_a * scale_b * (a.b), rounded up:
// a.b - qa.qb = ea.b + qa.eb, where e is a rounding residual and |qa| <= |a| + |ea|.
inline double error_bound(const Fixed& a, const Fixed& b) {
  const double e = a.residual * b.norm + (a.norm + a.residual) * b.residual;
  return std::ceil(e * a.scale * b.scale * (1 + 1e-9)) + 1;
}

inline int32_t clamp32(double x) {
  if (x <= LOWEST) return LOWEST;
  return x >= HIGHEST ? HIGHEST : static_cast<int32_t>(x);
}

inline int round_up(int n, int step) { return (n + step - 1) / step * step; }

// quantize_rows writes rows [from, from+n) one after another, then zero rows up to a multiple of MR.
inline void quantize_rows(const Rows& x, int64_t from, int n, float scale, int16_t* out) {
  const int width = 2 * pairs_of(x.d);
  for (int i = 0; i < n; i++) quantize(x, from + i, scale, out + static_cast<int64_t>(i) * width);
  std::fill(out + static_cast<int64_t>(n) * width, out + static_cast<int64_t>(round_up(n, MR)) * width, int16_t{0});
}

// pack_panels writes rows [from, from+n) as panels of NR columns: panel[pair][column], zero columns at the end.
inline void pack_panels(const Rows& x, int64_t from, int n, float scale, int32_t* out) {
  const int pairs = pairs_of(x.d);
  std::vector<int32_t> rows(static_cast<size_t>(16) * pairs);
  for (int c0 = 0; c0 < round_up(n, NR); c0 += 16) {
    for (int c = 0; c < 16; c++) {
      int32_t* row = rows.data() + static_cast<int64_t>(c) * pairs;
      if (c0 + c < n)
        quantize(x, from + c0 + c, scale, reinterpret_cast<int16_t*>(row));
      else
        std::fill(row, row + pairs, 0);
    }
    int32_t* panel = out + static_cast<int64_t>(c0 / NR) * NR * pairs + c0 % NR;
    for (int p = 0; p < pairs; p++)
      for (int c = 0; c < 16; c++) panel[static_cast<int64_t>(p) * NR + c] = rows[static_cast<int64_t>(c) * pairs + p];
  }
}

// sweep multiplies n rows by m packed columns and calls on_hit(row, column, value) for every element that is not below
// its row's or its column's threshold. Thresholds are padded to multiples of MR and NR with HIGHEST, and may rise
// while the sweep runs; rows and columns of the padding are never reported for the other's sake (the caller checks).
template <class OnHit>
void sweep(const int16_t* rows, int n, const int32_t* panels, int m, int pairs, const int32_t* bias,
           const int32_t* row_min, const int32_t* col_min, OnHit&& on_hit) {
  static const int32_t no_bias[NR] = {};
  constexpr int STRIP = 85 * MR;  // rows that stay in the second-level cache while the panels pass by
  const Ops& o = ops();
  alignas(64) int32_t out[MR * NR];
  Hit hits[MR * NR];
  for (int r0 = 0; r0 < n; r0 += STRIP) {
    for (int c = 0; c < m; c += NR) {
      const int32_t* panel = panels + static_cast<int64_t>(c) * pairs;
      for (int r = r0; r < std::min(n, r0 + STRIP); r += MR) {
        const int32_t* a = reinterpret_cast<const int32_t*>(rows) + static_cast<int64_t>(r) * pairs;
        o.mul(a, pairs, panel, pairs, bias ? bias + c : no_bias, out);
        const int found = o.scan(out, row_min + r, col_min + c, hits);
        for (int h = 0; h < found; h++) on_hit(r + hits[h].row, c + hits[h].col, hits[h].value);
      }
    }
  }
}

}  // namespace ps
