// Package segment keeps the vectors of a closed group as a file of 8-bit codes, and searches many such files.
//
// A [Segment] is built from the members of a group, with their clusters; its bytes are the file. An [Index] finds the
// members of several segments that are near to queries.
//
//	magic, length of the header | header (JSON) | sections, each at a multiple of 64 bytes
//
// Rows are members, ordered by cluster and then by position. So a list of an inverted file is a range of rows, and a
// search reads whole ranges. Each modality has separate sections: a search among images touches no text. A row takes 2
// (dim + 4) bytes of codes and scales, 60 bytes of ids, positions and the image's reference, and 4 bytes a noun.
//
// Guarantees:
//
//  1. The bytes of a segment are a function of the group's members and clusters.
//  2. Scores are those of [knn.CodeScanner], so a search finds the same on every machine, with any number of threads.
//  3. A search visits the lists whose centroids are nearest: a 64th of all, and at least as many as hold 16,384 rows.
//     Among these it is exact for the codes. Ties go to the earlier segment, then to the lower row.
//  4. Parse refuses bytes that are no segment, and an accessor of a damaged segment returns nothing instead of ending
//     the program. So does one whose file is truncated while mapped: [Segment.Err] and searches then return an error
//     that wraps [ErrInvalid].
//
// The bytes are little-endian, and so must the machine be. Any number of goroutines may read a Segment until Close.
package segment
