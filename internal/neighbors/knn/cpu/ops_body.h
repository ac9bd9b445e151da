// The part of an Ops table that is written once and compiled per instruction set: the including file sets the target
// and defines load8(const uint16_t*), which widens 8 float16 values, nearest8, which rounds 8 values to integers (ties to
// even), and sum8 with add_products, which holds 8 float64 sums. Everything is local to that file, so that no wide instruction leaks into code shared with other files.

typedef float f32x8 __attribute__((vector_size(32)));
typedef int32_t i32x8 __attribute__((vector_size(32)));
typedef int16_t i16x8 __attribute__((vector_size(16)));

#define PS_INLINE static inline __attribute__((always_inline))

PS_INLINE f32x8 load8(const float* x) {
  f32x8 v;
  __builtin_memcpy(&v, x, sizeof v);
  return v;
}

// tail8 reads the last n < 8 elements, and zeros after them.
template <class T>
PS_INLINE f32x8 tail8(const T* x, int n) {
  T padded[8] = {};
  __builtin_memcpy(padded, x, n * sizeof(T));
  return load8(padded);
}

// dot_body keeps 16 partial sums, element i going to partial sum i mod 16, and folds them by halves.
template <class A, class B>
PS_INLINE double dot_body(const A* a, const B* b, int d) {
  sum8 even = {}, odd = {};
  int i = 0;
  for (; i + 16 <= d; i += 16) {
    add_products(even, load8(a + i), load8(b + i));
    add_products(odd, load8(a + i + 8), load8(b + i + 8));
  }
  if (i + 8 <= d) {
    add_products(even, load8(a + i), load8(b + i));
    i += 8;
    if (i < d) add_products(odd, tail8(a + i, d - i), tail8(b + i, d - i));
  } else if (i < d) {
    add_products(even, tail8(a + i, d - i), tail8(b + i, d - i));
  }
  double e[8], o[8];
  __builtin_memcpy(e, &even, sizeof e);
  __builtin_memcpy(o, &odd, sizeof o);
  for (int l = 0; l < 8; l++) e[l] += o[l];
  return ((e[0] + e[4]) + (e[2] + e[6])) + ((e[1] + e[5]) + (e[3] + e[7]));
}

static double dot_hh(const uint16_t* a, const uint16_t* b, int d) { return dot_body(a, b, d); }
static double dot_hf(const uint16_t* a, const float* b, int d) { return dot_body(a, b, d); }
static double dot_ff(const float* a, const float* b, int d) { return dot_body(a, b, d); }

static float similarity(const float* q, const uint16_t* row, int d) {
  f32x8 s[4] = {};
  int i = 0;
  for (; i + 32 <= d; i += 32) {
    s[0] += load8(q + i) * load8(row + i);
    s[1] += load8(q + i + 8) * load8(row + i + 8);
    s[2] += load8(q + i + 16) * load8(row + i + 16);
    s[3] += load8(q + i + 24) * load8(row + i + 24);
  }
  for (; i + 8 <= d; i += 8) s[0] += load8(q + i) * load8(row + i);
  if (i < d) s[1] += tail8(q + i, d - i) * tail8(row + i, d - i);
  const f32x8 sum = (s[0] + s[1]) + (s[2] + s[3]);
  return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

static void widen(const uint16_t* x, int d, float* out) {
  int i = 0;
  for (; i + 8 <= d; i += 8) {
    const f32x8 v = load8(x + i);
    __builtin_memcpy(out + i, &v, sizeof v);
  }
  if (i < d) {
    const f32x8 v = tail8(x + i, d - i);
    __builtin_memcpy(out + i, &v, (d - i) * sizeof(float));
  }
}

// round_to_int16 saturates; the values are at most 32767 by the choice of the scale, give or take a rounding.
PS_INLINE i16x8 round_to_int16(f32x8 x) {
  i32x8 v = nearest8(x);
  const i32x8 limit = i32x8{} + 32767;
  v = v > limit ? limit : v;
  v = v < -limit ? -limit : v;
  return __builtin_convertvector(v, i16x8);
}

template <class T>
PS_INLINE void quantize_body(const T* x, int d, float scale, int16_t* out, int pairs) {
  int i = 0;
  for (; i + 8 <= d; i += 8) {
    const i16x8 v = round_to_int16(load8(x + i) * scale);
    __builtin_memcpy(out + i, &v, sizeof v);
  }
  if (i < d) {
    const i16x8 v = round_to_int16(tail8(x + i, d - i) * scale);
    __builtin_memcpy(out + i, &v, (2 * pairs - i) * sizeof(int16_t));
  }
}

static void quantize_half(const uint16_t* x, int d, float scale, int16_t* out, int pairs) {
  quantize_body(x, d, scale, out, pairs);
}
static void quantize_float(const float* x, int d, float scale, int16_t* out, int pairs) {
  quantize_body(x, d, scale, out, pairs);
}

static inline int32_t code_dot(const int16_t* q, const int8_t* row, int d) {
  int32_t sum = 0;
  for (int i = 0; i < d; i++) sum += static_cast<int32_t>(q[i]) * static_cast<int16_t>(row[i]);
  return sum;
}

static float encode(const uint16_t* row, int d, int8_t* codes) {
  f32x8 most = {};
  for (int i = 0; i < d; i += 8) {
    const f32x8 x = d - i < 8 ? tail8(row + i, d - i) : load8(row + i);
    const f32x8 size = x < 0 ? -x : x;
    most = size > most ? size : most;
  }
  float largest = 0;
  for (int j = 0; j < 8; j++) largest = most[j] > largest ? most[j] : largest;
  const float scale = largest > 0 ? MOST_CODE / largest : 0;
  for (int i = 0; i < d; i += 8) {
    const int n = d - i < 8 ? d - i : 8;
    const i32x8 v = nearest8((n < 8 ? tail8(row + i, n) : load8(row + i)) * scale);
    for (int j = 0; j < n; j++) codes[i + j] = static_cast<int8_t>(v[j]);
  }
  return largest / MOST_CODE;
}

static int code_scan(const int32_t* out, const float* scale, const float* least, CodeHit* hits) {
  int n = 0;
  for (int i = 0; i < MR; i++) {
    float score[NR];
    int32_t reached[NR], any = 0;
    for (int j = 0; j < NR; j++) {
      score[j] = static_cast<float>(out[i * NR + j]) * scale[i];
      reached[j] = score[j] >= least[j];
      any |= reached[j];
    }
    if (!any) continue;
    for (int j = 0; j < NR; j++)
      if (reached[j]) hits[n++] = CodeHit{j, i, score[j]};
  }
  return n;
}
