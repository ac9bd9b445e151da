// Package jpeg decodes the usual kind of JPEG in a third of the time that the standard library's image/jpeg takes.
//
// In go the bytes of a file, out comes what image/jpeg makes of them.
//
// Guarantees:
//
//  1. The pixels, and the errors, are those of image/jpeg, bit for bit. What this package decodes itself is decoded by the
//     same integer arithmetic (that of Go 1.26); a test and a fuzz target compare the two.
//  2. Decoded here are sequential files of 8 bits, grey or in three components, with chroma in full or half, whose
//     components come in one scan: what cameras and web sites write when they do not write progressive files. At the first
//     thing that is anything else, or wrong in any way, the file goes to image/jpeg from its beginning.
//  3. The vector code for amd64 with AVX2 and the portable code give the same bits. No cgo.
//
// Sizes are not limited here: read the header first. Functions are safe for concurrent use.
package jpeg
