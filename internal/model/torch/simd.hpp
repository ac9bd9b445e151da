// Loops over floats, compiled for the vector units that the processor may have.
#ifndef PAIRSTREAM_TORCH_SIMD_HPP
#define PAIRSTREAM_TORCH_SIMD_HPP

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#define PS_INLINE inline __attribute__((always_inline))

// PS_VECTORISED(name, (type a, ...), (a, ...)) makes the function name out of name_body, an always-inlined function
// template-free loop, in a version for each kind of vector unit, and picks one when called.
#if defined(__x86_64__)
#define PS_VECTORISED(name, parameters, arguments)                                                                  \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma,prefer-vector-width=512"))) void name##_512         \
      parameters {                                                                                                  \
    name##_body arguments;                                                                                          \
  }                                                                                                                 \
  __attribute__((target("avx2,fma"))) void name##_256 parameters { name##_body arguments; }                         \
  void name##_any parameters { name##_body arguments; }                                                             \
  void name parameters {                                                                                            \
    static const auto pick = ::pairstream::has_avx512() ? name##_512 : ::pairstream::has_avx2() ? name##_256 : name##_any; \
    pick arguments;                                                                                                 \
  }
#else
#define PS_VECTORISED(name, parameters, arguments) \
  void name parameters { name##_body arguments; }
#endif

namespace pairstream {

// Sums and maxima go over this many lanes, since a compiler does not reorder them by itself.
constexpr int64_t kLanes = 16;

#if defined(__x86_64__)
// limited_to says whether the switch of internal/base/instructions allows no more than some set.
inline bool limited_to(const char *set) {
  const char *limit = std::getenv("PAIRSTREAM_INSTRUCTIONS");
  return limit != nullptr && std::strcmp(limit, set) == 0;
}
inline bool has_avx512() {
  return !limited_to("avx2") && !limited_to("portable") && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
inline bool has_avx2() {
  return !limited_to("portable") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

// exponential is e^x for x <= 0, within 2e-7 of its value, and exactly 0 where float32 has no normal number for it.
PS_INLINE float exponential(float x) {
  constexpr float kLog2e = 1.44269504088896f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
  constexpr float kLeast = -87.0f;
  float bounded = x < kLeast ? kLeast : x;
  float shifted = bounded * kLog2e + kRound;
  float n = shifted - kRound;
  float r = bounded - n * kLn2High - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  int32_t exponent = (bits - 0x4B400000 + 127) << 23;  // 2^n
  float scale;
  std::memcpy(&scale, &exponent, sizeof scale);
  return x < kLeast ? 0.0f : p * scale;
}

// error_function is erf(x), within 4e-7.
PS_INLINE float error_function(float x) {
  // A rational approximation on [-4, 4], where float32 reaches one.
  float c = x < -4.0f ? -4.0f : x > 4.0f ? 4.0f : x;
  float s = c * c;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s - 2.10102402082508e-06f;
  p = p * s - 5.69250639462346e-05f;
  p = p * s - 7.34990630326855e-04f;
  p = p * s - 2.95459980854025e-03f;
  p = p * s - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s - 2.13374055278905e-04f;
  q = q * s - 1.68282697438203e-03f;
  q = q * s - 7.37332916720468e-03f;
  q = q * s - 1.42647390514189e-02f;
  return c * p / q;
}

}  // namespace pairstream

#endif
