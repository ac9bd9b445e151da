// Package indexer turns the embeddings of a lane into groups with their neighbours, clusters and objects (GPN-S
// sections 3.2 to 3.5), and answers searches over the pairs that it holds.
//
// Embeddings go in by seq; each group's neighbour chunks and manifest come out:
//
//	b.Add(embedding, seq)    -> Open                 go on
//	                         -> Complete             Close(ByCount), then go on
//	                         -> NewModel             Close(ByModel), then Add the same embedding again
//	seal record              -> Close(BySeal)
//	Close                    -> chunks and manifest of the group; the next one begins
//
// Contents of a group:
//
//   - V2T_k: the k texts nearest to an image, its own text among them.
//   - SE = V2V_k1 n T2V_k2 (eq. 9). V2V leaves out the image itself and, unless Options.KeepSameImage is set, other
//     pairs of the same image: these are known positives and could only find themselves. T2V is as printed, over the
//     images of all pairs, so an image with five captions takes five of the k2.
//   - The cluster of every member: plain k-means, squared L2, not spherical, from k-means++ starts. K is the smaller
//     of the configured number and the group's size.
//   - obj(v) (eq. 7): nouns in more than a share p of the neighbour texts, out of those in more than MinCount captions
//     of the group. The share is count/k > p in float64, for the k neighbours found (fewer in a tiny group). Nouns are
//     those of internal/content/nouns, lower-cased. The manifest lists them ascending, and obj refers to that list in
//     ascending order. Hostile captions cannot make records too large for the topic: a manifest has the most frequent
//     nouns, up to 768 KiB of them, and obj(v) at most 64, those in the most texts.
//
// Guarantees:
//
//  1. A group's records are a function of its embeddings, the options and the group's id: the same bytes on every
//     machine, with any number of threads. Scores are exact (internal/neighbors/knn), and ties go to the lower position.
//  2. The first embedding of a pair is kept. Later ones are left out and counted in the manifest: as duplicates if
//     the pair is in the same group, as repeats if it is in an earlier group. A pair counts once in at least
//     1,048,576 embeddings of its lane, and in at most half as many again: the window is cut into blocks by seq, and
//     is a function of the embeddings alone. Embeddings that are left out stay in the log, between the manifest's
//     seqs and in none of its chunks. The seal counts repeats that no group follows. Positions are given in seq
//     order.
//  3. After a crash, remember the embeddings of the window before the open group's first seq, then add the later ones
//     again: this gives the same state.
//  4. With Options.Scope a group asks closed groups; the caller of Close brings their segments (outside.go). The
//     group's records are a function of these too, and the manifest names them. With Options.Segments a closed group
//     has a segment.
//  5. Near-duplicates are found when the group closes, and its chunks name them (near.go). Dropped near-duplicates
//     are no members: clusters are made with them, neighbours and objects without.
//  6. With Options.Repack a group tells where its members' images are. The caller makes the copies, notes them in the
//     chunks and signs the manifest again before it publishes anything of the group.
//  7. Memory per pair of dimension d is 4d bytes of vectors, outside the Go heap, about 64 bytes of ids and 4 bytes per
//     noun, and 16 bytes with Options.Repack; Close takes about 500 bytes more per pair while it runs (k=10, k1=5), 2 (d + 40) more
//     with Options.Segments, and about 500 more with Options.Scope. The
//     window takes about 28 bytes an embedding, 45 MB a lane at most.
//
// Concurrency: a Builder belongs to one goroutine. A [Live] may be searched and added to by any number.
//
// The package does not read topics, does not know time, and leaves heavy arithmetic to a [knn.Engine].
package indexer
