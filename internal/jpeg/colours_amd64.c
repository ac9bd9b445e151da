//go:build cgo && amd64

#include "colours.h"

#include <immintrin.h>
#include <stdint.h>

// What turns colours into RGB for libjpeg-turbo, up to the function that this file replaces. All releases have it so.
struct jpeg_color_deconverter {
  void (*start_pass)(j_decompress_ptr);
  void (*color_convert)(j_decompress_ptr, JSAMPIMAGE, JDIMENSION, JSAMPARRAY, int);
};

#define WIDE __attribute__((target("avx512f,avx512bw,avx512vbmi")))

// colours has 32 pixels of words.
typedef struct {
  __m512i red, green, blue;
} colours;

enum { point = 16, half = 1 << (point - 1) };

// rounded returns x * factor / 65536, rounded, of words up to 128 and down to -128.
WIDE static inline __m512i rounded(__m512i x, short factor) {
  __m512i twice = _mm512_mulhi_epi16(_mm512_add_epi16(x, x), _mm512_set1_epi16(factor));
  return _mm512_srai_epi16(_mm512_add_epi16(twice, _mm512_set1_epi16(1)), 1);
}

// weighed returns (weights of x and y) / 65536, rounded, of double words that hold x and y.
WIDE static inline __m512i weighed(__m512i pairs, __m512i weights) {
  return _mm512_srai_epi32(_mm512_add_epi32(_mm512_madd_epi16(pairs, weights), _mm512_set1_epi32(half)), point);
}

// convert_words computes what libjpeg-turbo does: red is Y + 1.402 Cr, green Y - 0.34414 Cb - 0.71414 Cr, and blue Y + 1.772 Cb. A
// factor beyond a word's is a whole number, 1 or 2, and what it differs by.
WIDE static inline colours convert_words(__m256i luma, __m256i blueness, __m256i redness) {
  __m512i middle = _mm512_set1_epi16(128), y = _mm512_cvtepu8_epi16(luma);
  __m512i cb = _mm512_sub_epi16(_mm512_cvtepu8_epi16(blueness), middle), cr = _mm512_sub_epi16(_mm512_cvtepu8_epi16(redness), middle);
  __m512i weights = _mm512_set1_epi32(18734 << 16 | (uint16_t)-22554);
  __m512i low = weighed(_mm512_unpacklo_epi16(cb, cr), weights), high = weighed(_mm512_unpackhi_epi16(cb, cr), weights);
  return (colours){
      .red = _mm512_add_epi16(_mm512_add_epi16(y, cr), rounded(cr, 26345)),
      .green = _mm512_add_epi16(_mm512_sub_epi16(y, cr), _mm512_packs_epi32(low, high)),
      .blue = _mm512_add_epi16(_mm512_add_epi16(y, _mm512_add_epi16(cb, cb)), rounded(cb, -14942)),
  };
}

// places says where the 192 bytes of 64 pixels are: reds from 0 and greens from 64 on, and blues, which the masks name, from 0 on. They
// are in the order in which words are packed.
static const uint8_t places[3][64] = {
    {0, 64, 0, 1, 65, 1, 2, 66, 2, 3, 67, 3, 4, 68, 4, 5, 69, 5, 6, 70, 6, 7, 71, 7, 16, 80, 16, 17, 81, 17, 18, 82,
     18, 19, 83, 19, 20, 84, 20, 21, 85, 21, 22, 86, 22, 23, 87, 23, 32, 96, 32, 33, 97, 33, 34, 98, 34, 35, 99, 35, 36, 100, 36, 37},
    {101, 37, 38, 102, 38, 39, 103, 39, 48, 112, 48, 49, 113, 49, 50, 114, 50, 51, 115, 51, 52, 116, 52, 53, 117, 53, 54, 118, 54, 55, 119, 55,
     8, 72, 8, 9, 73, 9, 10, 74, 10, 11, 75, 11, 12, 76, 12, 13, 77, 13, 14, 78, 14, 15, 79, 15, 24, 88, 24, 25, 89, 25, 26, 90},
    {26, 27, 91, 27, 28, 92, 28, 29, 93, 29, 30, 94, 30, 31, 95, 31, 40, 104, 40, 41, 105, 41, 42, 106, 42, 43, 107, 43, 44, 108, 44, 45,
     109, 45, 46, 110, 46, 47, 111, 47, 56, 120, 56, 57, 121, 57, 58, 122, 58, 59, 123, 59, 60, 124, 60, 61, 125, 61, 62, 126, 62, 63, 127, 63},
};
static const __mmask64 blues[3] = {0x4924924924924924, 0x2492492492492492, 0x9249249249249249};

static inline __mmask64 first(int n) { return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1; }

WIDE static void color_convert(j_decompress_ptr codec, JSAMPIMAGE in, JDIMENSION row, JSAMPARRAY out, int rows) {
  for (; rows > 0; rows--, row++, out++) {
    int width = codec->output_width;
    for (int x = 0; x < width; x += 64) {
      __mmask64 some = first(width - x);
      __m512i y = _mm512_maskz_loadu_epi8(some, in[0][row] + x), cb = _mm512_maskz_loadu_epi8(some, in[1][row] + x);
      __m512i cr = _mm512_maskz_loadu_epi8(some, in[2][row] + x);
      colours a = convert_words(_mm512_castsi512_si256(y), _mm512_castsi512_si256(cb), _mm512_castsi512_si256(cr));
      colours b = convert_words(_mm512_extracti64x4_epi64(y, 1), _mm512_extracti64x4_epi64(cb, 1), _mm512_extracti64x4_epi64(cr, 1));
      __m512i red = _mm512_packus_epi16(a.red, b.red), green = _mm512_packus_epi16(a.green, b.green);
      __m512i blue = _mm512_packus_epi16(a.blue, b.blue);
      uint8_t *to = *out + 3 * x;
#pragma GCC unroll 3
      for (int part = 0; part < 3; part++) {
        __m512i at = _mm512_loadu_si512(places[part]);
        __m512i bytes = _mm512_mask_permutexvar_epi8(_mm512_permutex2var_epi8(red, at, green), blues[part], at, blue);
        int left = 3 * (width - x) - 64 * part;
        if (left >= 64) {
          _mm512_storeu_si512(to + 64 * part, bytes);
        } else if (left > 0) {
          _mm512_mask_storeu_epi8(to + 64 * part, first(left), bytes);
        }
      }
    }
  }
}

void take_over_colours(j_decompress_ptr codec) {
  __builtin_cpu_init();
  int able = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi");
  if (able && codec->num_components == 3) codec->cconvert->color_convert = color_convert;
}
