// RGB out of YCbCr, with the bits of libjpeg-turbo.
#ifndef PAIRSTREAM_JPEG_COLOURS_H
#define PAIRSTREAM_JPEG_COLOURS_H

#include <stdio.h>

#include <jpeglib.h>

// take_over_colours has the colours of a file of YCbCr computed here, if the processor has AVX-512 with VBMI.
#ifdef __x86_64__
void take_over_colours(j_decompress_ptr codec);
#else
static inline void take_over_colours(j_decompress_ptr codec) { (void)codec; }
#endif

#endif
