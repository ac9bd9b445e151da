// Package imaging turns the encoded bytes of crawled images into pixels for a model.
//
// It decodes untrusted bytes (JPEG, PNG or WebP) into an 8-bit RGB [Image]; resizing, normalising and augmenting work
// on that one type.
//
// Guarantees:
//
//  1. No file takes more than two seconds of one core or 256 MiB, whatever its bytes claim. All decoders of a process
//     together take 128 MiB beside their results. The header is read before the pixels. Too many bytes or pixels, too
//     wide samples, and a JPEG of too many scans for its size are refused with [ErrTooLarge] before anything of the
//     image's size is allocated. Compressed data that costs much and gives nothing is given up after 1.5 seconds of
//     processor time; only that depends on the machine.
//  2. Every other failure to decode wraps [ErrNotImage]: bytes that are no image, a truncated image, or an
//     unsupported kind (animated WebP, 12-bit or arithmetic JPEG). A decoder's panic counts as such a failure. Both
//     errors are permanent: the same bytes fail again.
//  3. Everything else is a pure function of its arguments; random functions draw from the generator that is passed
//     in. Pixels are computed in integers, so they do not depend on the processor; those of a JPEG depend on the
//     release of libjpeg-turbo, and on whether there is cgo (see internal/content/jpeg).
//
// Transparent pixels are laid over white, CMYK and 16-bit samples are reduced to 8-bit RGB without colour management,
// and grey and paletted images become RGB.
//
// The EXIF orientation of a JPEG is applied: captions are written by people who saw the picture upright, and "left of"
// in a caption must mean left in the pixels. (Pipelines on a plain PIL.Image.open do not apply it.) Orientation tags in
// PNG and WebP files are rare, often ignored by viewers, and ignored here. Tags of another type than Exif's SHORT are
// ignored too.
//
// The Python package follows the same rules in pairstream.picture. Package internal/testing/oddpictures has the test
// pictures of both.
//
// Functions are safe for concurrent use; do not change an Image while others read it.
package imaging
