// Package jpeg decodes JPEG files with libjpeg-turbo.
//
// It takes the bytes of a file, and its size as image/jpeg's DecodeConfig reads it, and returns an image.
//
// Guarantees:
//
//  1. image/jpeg decides whether a file is valid. [Decode] refuses every file that libjpeg-turbo refuses, warns
//     about, or cannot return as RGB (CMYK, rare samplings, a size that it reads differently). [Judge] then decodes
//     the file with image/jpeg, from the beginning, if the caller has the memory. Both refuse a truncated file, but
//     not one with stray bytes between segments.
//  2. Pixels are a function of the file, the release of libjpeg-turbo and the arguments: transforms are the accurate
//     ones in integers, whose bits are the same with and without vector instructions.
//  3. No memory is allocated for more pixels than the given size. Sizes are not limited here: read the header first.
//
// Without cgo, image/jpeg decodes every file. Its pixels differ by a level or two, and by more where chroma has half
// the resolution, because libjpeg-turbo interpolates chroma. Tools without tensors are built in this way; they only
// check whether a file can be decoded.
//
// Functions are safe for concurrent use. libjpeg-turbo cannot be interrupted: a file is decoded to its end.
package jpeg
