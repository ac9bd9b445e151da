//go:build cgo

#include "regular.h"

#include <endian.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "colours.h"

#ifndef LIBJPEG_TURBO_VERSION
#error "want libjpeg-turbo's jpeglib.h"
#endif

// The decoder of Huffman codes that libjpeg-turbo calls, up to the function that this file replaces. All releases have it so.
struct jpeg_entropy_decoder {
  void (*start_pass)(j_decompress_ptr);
  boolean (*decode_mcu)(j_decompress_ptr, JBLOCKROW *);
};

enum {
  lookup_bits = 10,
  longest_code = 16,
  block_values = 64,
  largest_dc = 11,  // bits of a value
  largest_ac = 10,
  zeros_only = 15,  // a run without a value behind it
  end_of_block = 64,
  invalid = 128,
  // What a damaged block reads beyond the end: less than 8 bytes for each two of its values, and 8 read at once.
  padding = 8 * (block_values / 2 + 2) + 8,
};

// A symbol says what follows in the data: from the lowest byte on, the bits of its code and value together, those of the code, those
// of the value, and the zeros before the value, end_of_block or invalid.
typedef uint32_t symbol;

// table decodes the Huffman codes of one kind.
typedef struct {
  symbol looked_up[1 << lookup_bits];  // by the next bits; 0 where the code is longer
  int32_t largest[longest_code + 1];   // code of each length
  int32_t offset[longest_code + 1];    // from a code to its place in values
  uint8_t values[256];
  int is_ac;
} table;

// reader reads bits of data that has neither stuffing nor markers.
typedef struct {
  const uint8_t *at, *end;
  uint64_t bits;  // the next ones, from the top
  int count;
} reader;

typedef struct {
  struct jpeg_error_mgr errors;
  jmp_buf stop;
  struct jpeg_decompress_struct codec;
  uint8_t *data;  // of the scan
  reader in;
  table dc[NUM_HUFF_TBLS], ac[NUM_HUFF_TBLS];
  int blocks;  // of an MCU
  struct {
    const table *dc, *ac;
    int32_t *last;  // DC value of the component
  } block[D_MAX_BLOCKS_IN_MCU];
  int32_t last[MAX_COMPS_IN_SCAN];
  uint64_t left;  // MCUs
} decoder;

static const uint8_t zigzag[block_values] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

static void give_up(decoder *d) { longjmp(d->stop, 1); }

static symbol symbol_of(int is_ac, int length, unsigned value) {
  uint32_t size = value & 15, run = value >> 4;
  if (!is_ac) {
    run = value > largest_dc ? invalid : 0;
  } else if (value == 0) {
    run = end_of_block;
  } else if (size > largest_ac || (size == 0 && run != zeros_only)) {
    run = invalid;
  }
  return (length + size) | (uint32_t)length << 8 | size << 16 | run << 24;
}

// make_table returns 0 where the lengths are those of no code.
static int make_table(table *t, const JHUFF_TBL *from, int is_ac) {
  if (from == NULL) return 0;
  t->is_ac = is_ac;
  memset(t->looked_up, 0, sizeof t->looked_up);
  int code = 0, place = 0;
  for (int length = 1; length <= longest_code; length++, code <<= 1) {
    int count = from->bits[length];
    if (place + count > 256 || code + count > 1 << length) return 0;
    t->offset[length] = place - code;
    for (int i = 0; i < count; i++, code++, place++) {
      t->values[place] = from->huffval[place];
      if (length > lookup_bits) continue;
      symbol s = symbol_of(is_ac, length, t->values[place]);
      int spare = lookup_bits - length;
      for (int rest = 0; rest < 1 << spare; rest++) t->looked_up[(code << spare) + rest] = s;
    }
    t->largest[length] = count > 0 ? code - 1 : -1;
  }
  return 1;
}

static __attribute__((noinline)) symbol longer(const table *t, uint64_t bits) {
  for (int length = lookup_bits + 1; length <= longest_code; length++) {
    int code = bits >> (64 - length);
    if (code <= t->largest[length]) return symbol_of(t->is_ac, length, t->values[code + t->offset[length]]);
  }
  return 1 | 1 << 8 | (uint32_t)invalid << 24;
}

// refill makes sure of 56 bits.
static inline void refill(reader *in) {
  uint64_t next;
  memcpy(&next, in->at, sizeof next);
  in->bits |= be64toh(next) >> in->count;
  in->at += (63 - in->count) >> 3;
  in->count |= 56;
}

// take returns the next symbol, and takes its bits and those of its value, of at most 27.
static inline symbol take(const table *t, reader *in, int *value) {
  symbol s = t->looked_up[in->bits >> (64 - lookup_bits)];
  if (__builtin_expect(s == 0, 0)) s = longer(t, in->bits);
  // A value that begins with 0 is negative.
  uint64_t bits = in->bits << (s >> 8 & 63);
  int size = s >> 16 & 15, negative = (int)~((int64_t)bits >> 63);
  *value = (int)(bits >> 1 >> (63 - size)) + (negative & (1 - (1 << size)));
  in->bits <<= s & 63;
  in->count -= s & 63;
  return s;
}

static inline void decode_block(decoder *d, int b, JCOEF *block, reader *in) {
  int value, k = 1;
  refill(in);
  if (take(d->block[b].dc, in, &value) >> 24 != 0) give_up(d);
  int32_t dc = *d->block[b].last += value;
  if (dc != (int16_t)dc) give_up(d);
  block[0] = dc;
  const table *ac = d->block[b].ac;
  symbol s;
  for (;;) {  // two symbols, as far as 56 bits reach
    refill(in);
    s = take(ac, in, &value);
    if ((k += s >> 24) >= block_values) break;
    block[zigzag[k++]] = value;
    if (k == block_values) return;
    s = take(ac, in, &value);
    if ((k += s >> 24) >= block_values) break;
    block[zigzag[k++]] = value;
    if (k == block_values) return;
  }
  if (s >> 24 != end_of_block) give_up(d);
}

// decode_mcu decodes the blocks of an MCU, which are zero before.
static boolean decode_mcu(j_decompress_ptr codec, JBLOCKROW *blocks) {
  decoder *d = codec->client_data;
  reader in = d->in;
  for (int b = 0; b < d->blocks; b++) {
    decode_block(d, b, *blocks[b], &in);
    if ((in.at - in.end) * 8 > in.count) give_up(d);  // more than there is
  }
  d->in = in;
  if (--d->left == 0 && (in.at - in.end) * 8 + 8 <= in.count) give_up(d);  // a byte is left over
  return TRUE;
}

// copy_scan takes the data of the scan out of the file, without what is stuffed behind 0xff, up to the marker behind it.
static int copy_scan(decoder *d) {
  struct jpeg_source_mgr *src = d->codec.src;
  const uint8_t *from = src->next_input_byte, *end = from + src->bytes_in_buffer;
  uint8_t *to = d->data = malloc(src->bytes_in_buffer + padding);
  if (to == NULL) return 0;
  for (;;) {
    const uint8_t *marker = memchr(from, 0xff, end - from);
    if (marker == NULL || end - marker < 2) return 0;
    size_t length = marker - from;
    memcpy(to, from, length);
    to += length;
    from = marker;
    if (marker[1] != 0) break;
    *to++ = 0xff;
    from += 2;
  }
  memset(to, 0, padding);
  d->in = (reader){.at = d->data, .end = to};
  src->next_input_byte = from;
  src->bytes_in_buffer = end - from;
  return 1;
}

static int is_regular(const struct jpeg_decompress_struct *codec) {
  if (codec->data_precision != 8 || codec->progressive_mode || codec->arith_code || codec->restart_interval != 0) return 0;
  if (codec->num_components == 1) return codec->jpeg_color_space == JCS_GRAYSCALE;
  if (codec->num_components != 3 || codec->jpeg_color_space != JCS_YCbCr) return 0;
  const jpeg_component_info *c = codec->comp_info;
  return c[0].h_samp_factor <= 2 && c[0].v_samp_factor <= 2 && c[1].h_samp_factor == 1 && c[1].v_samp_factor == 1 &&
         c[2].h_samp_factor == 1 && c[2].v_samp_factor == 1;
}

// take_over has the functions of this package called.
static int take_over(decoder *d) {
  struct jpeg_decompress_struct *codec = &d->codec;
  int made[2][NUM_HUFF_TBLS] = {{0}};
  for (int b = 0; b < codec->blocks_in_MCU; b++) {
    int c = codec->MCU_membership[b];
    int dc = codec->cur_comp_info[c]->dc_tbl_no, ac = codec->cur_comp_info[c]->ac_tbl_no;
    if (!made[0][dc]++ && !make_table(&d->dc[dc], codec->dc_huff_tbl_ptrs[dc], 0)) return 0;
    if (!made[1][ac]++ && !make_table(&d->ac[ac], codec->ac_huff_tbl_ptrs[ac], 1)) return 0;
    d->block[b].dc = &d->dc[dc];
    d->block[b].ac = &d->ac[ac];
    d->block[b].last = &d->last[c];
  }
  memset(d->last, 0, sizeof d->last);
  d->blocks = codec->blocks_in_MCU;
  d->left = (uint64_t)codec->MCUs_per_row * codec->MCU_rows_in_scan;
  if (!copy_scan(d)) return 0;
  codec->entropy->decode_mcu = decode_mcu;
  take_over_colours(codec);
  return 1;
}

static void on_error(j_common_ptr codec) { give_up(codec->client_data); }

static void on_message(j_common_ptr codec, int level) {
  if (level < 0) give_up(codec->client_data);  // a warning
}

static int decode(decoder *d, const uint8_t *file, size_t length, unsigned width, unsigned height, unsigned shrink, uint8_t *pixels) {
  struct jpeg_decompress_struct *codec = &d->codec;
  if (setjmp(d->stop) != 0) return 0;
  jpeg_create_decompress(codec);
  jpeg_mem_src(codec, file, length);
  jpeg_read_header(codec, TRUE);
  if (codec->image_width != width || codec->image_height != height || !is_regular(codec) || jpeg_has_multiple_scans(codec)) return 0;
  codec->out_color_space = JCS_RGB;
  codec->dct_method = JDCT_ISLOW;
  codec->scale_num = 1;
  codec->scale_denom = shrink;
  jpeg_start_decompress(codec);
  if (codec->output_width != (width + shrink - 1) / shrink || codec->output_height != (height + shrink - 1) / shrink) return 0;
  if (!take_over(d)) return 0;
  while (codec->output_scanline < codec->output_height) {
    JSAMPROW row = pixels + (size_t)codec->output_scanline * 3 * codec->output_width;
    jpeg_read_scanlines(codec, &row, 1);
  }
  jpeg_finish_decompress(codec);
  return 1;
}

int regular_decode(const uint8_t *file, size_t length, unsigned width, unsigned height, unsigned shrink, uint8_t *pixels) {
  decoder d;
  d.data = NULL;
  d.codec.mem = NULL;
  d.codec.err = jpeg_std_error(&d.errors);
  d.codec.client_data = &d;
  d.errors.error_exit = on_error;
  d.errors.emit_message = on_message;
  int done = decode(&d, file, length, width, height, shrink, pixels);
  jpeg_destroy_decompress(&d.codec);
  free(d.data);
  return done;
}
