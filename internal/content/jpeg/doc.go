// Package jpeg decodes JPEG files with libjpeg-turbo.
//
// In go the bytes of a file, and its size as image/jpeg's DecodeConfig reads it; out comes an image.
//
// Guarantees:
//
//  1. image/jpeg decides what a file is. [Decode] refuses whatever libjpeg-turbo refuses, warns about, or cannot give as
//     RGB (CMYK, rare samplings, a size that it reads otherwise). [Judge] then decodes the file with image/jpeg, from the
//     beginning, if the caller has the memory. A file that is cut short is refused by both. One with stray bytes between
//     segments is not.
//  2. Pixels are a function of the file, the release of libjpeg-turbo and the arguments: transforms are the accurate
//     ones in integers, whose bits are the same with and without vector instructions.
//  3. No memory is taken for more pixels than the size that is passed in. Sizes are not limited here: read the header first.
//
// Without cgo every file is image/jpeg's, whose pixels differ by a level or two, more where chroma has half the
// resolution: libjpeg-turbo interpolates it. Tools without tensors are built so; they look at whether a file can be
// decoded, no more.
//
// Functions are safe for concurrent use. libjpeg-turbo is not told to stop: a file is decoded to its end.
package jpeg
