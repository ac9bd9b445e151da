// Package segment keeps the vectors of a closed group as a file of 8-bit codes, and searches many such files.
//
// The members of a group, with their clusters, go in; out comes a [Segment], whose bytes are the file. An [Index] finds
// the members of several segments that are near to queries.
//
//	magic, length of the header | header (JSON) | sections, each at a multiple of 64 bytes
//
// Rows are members, ordered by cluster and then by position. So a list of an inverted file is a range of rows, and a
// search reads whole ranges. Each modality has sections of its own: a search among images touches no text. A row takes
// 2 (dim + 4) bytes of codes and scales, 60 bytes of ids, places and the image's reference, and 4 bytes a noun.
//
// Guarantees:
//
//  1. The bytes of a segment are a function of the group's members and clusters.
//  2. Scores are those of [knn.CodeScanner], so a search finds the same on every machine, with any number of threads.
//  3. A search visits the lists whose centroids are nearest: a 64th of all, and at least as many as hold 16,384 rows.
//     Among these it is exact for the codes. Ties go to the earlier segment, then to the lower row.
//  4. Parse refuses what is no segment, and an accessor of a damaged one returns nothing instead of ending the program. So does
//     one whose file is cut while it is mapped: [Segment.Err] and searches then return an error that wraps [ErrInvalid].
//
// The bytes are little-endian, and so must the machine be. A Segment may be read by any number of goroutines until
// Close.
package segment
