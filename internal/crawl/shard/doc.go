// Package shard reads and writes image-text pairs in WebDataset tars, and reads single images out of them by range.
//
// [Scan] walks tars and yields examples: an image, its captions and its position. [Bucket] reads such an image again,
// from any store; [Images] caches decoded ones. [Writer] and [DirWriter] write tars, [Spool] the images that came
// inline.
//
// A tar holds the files of one example next to one another, in any order, under one key: the entry's name up to the
// first dot of its last element. key.jpg, key.jpeg, key.png or key.webp is the image; captions come from key.txt and
// from "caption" and "captions" in key.json. Other files are counted and ignored. A file may hold several tars, one
// behind another, as `tar -i` reads them.
//
// A JSON list of image files, ALBEF's or Karpathy's, stands in the place of a tar. References then name the files.
//
// Invariants:
//
//  1. Everything is counted once. A scan gives an [Example] for every usable image with a usable caption, and a
//     [Problem] for everything else that was meant as a pair. The published records are the pairs of the examples,
//     plus one record for each problem ([Problem.Record]), which no encoder can accept.
//  2. One bad entry costs that entry. After a damaged header the scan continues at the next sound one; the entries
//     before a cut are still read. A tar or folder that cannot be read is a problem like others. A tar gives at most
//     MaxCaptions pairs for an image and MaxProblems problems; reaching a limit is another problem.
//  3. Memory is bounded whatever a tar declares: one image of schemas.MaxImageBytes, one caption file and one JSON
//     file of maxMetaBytes are held at a time, and never more than the tar has bytes.
//  4. No entry is ever written to disk by its name, and a [Bucket] opens nothing outside its roots, whether by "..",
//     by an absolute path or through a symbolic link.
//  5. An image from a [Bucket] has the requested hash, and [Images] shares no result between references. [Permanent]
//     tells lasting errors from faults that may pass; a refusal by a store or file system becomes permanent after
//     [DeniedFor].
//  6. Same input, same bytes: tars carry no time, user or machine, and a [Spool] that resumes writes the same bytes at
//     the same places.
//
// Bucket and Images are safe for concurrent use, the writers and Spool are not.
package shard
