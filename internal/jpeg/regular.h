// Decoding of regular files: one scan, no restarts, grey or YCbCr with chroma of the full or half the resolution, and nothing
// out of order.
#ifndef PAIRSTREAM_JPEG_REGULAR_H
#define PAIRSTREAM_JPEG_REGULAR_H

#include <stddef.h>
#include <stdint.h>

// regular_decode writes the RGB pixels of a file of width x height, whose sides are divided by shrink. It returns 0 for whatever
// is not regular; what the pixels are is then undefined.
int regular_decode(const uint8_t *file, size_t length, unsigned width, unsigned height, unsigned shrink, uint8_t *pixels);

#endif
