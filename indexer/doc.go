// Package indexer turns the embeddings of a lane into groups with their neighbours, clusters and objects (GPN-S
// sections 3.2 to 3.5), and answers searches over the pairs that it holds.
//
// In go embeddings in seq order; out come, per group, neighbour chunks and a manifest:
//
//	b.Add(embedding, seq)    -> Open                 go on
//	                         -> Complete             Close(ByCount), then go on
//	                         -> NewModel             Close(ByModel), then Add the same embedding again
//	seal record              -> Close(BySeal)
//	Close                    -> chunks and manifest of the group; the next one begins
//
// What a group holds:
//
//   - V2T_k: the k texts nearest to an image, its own text among them.
//   - SE = V2V_k1 n T2V_k2 (eq. 9): V2V leaves out the image itself and, unless told otherwise, other pairs of the same
//     image, which are known positives and could only find themselves; T2V is as printed, over the images of all pairs,
//     so that an image with five captions takes five places.
//   - The cluster of every member: plain k-means, squared L2, not spherical, from k-means++ starts; K is the smaller of
//     the configured number and the group's size.
//   - obj(v) (eq. 7): nouns in more than a share p of the neighbour texts, out of those in more than MinCount captions of
//     the group. The share is count/k > p in float64, k being the neighbours there are (fewer in a tiny group). Nouns
//     are those of internal/content/nouns, lower-cased. The manifest lists them ascending, and obj refers to that list in
//     ascending order.
//     Captions of strangers do not make records that no topic takes: a manifest has the most frequent nouns, up to 768
//     KiB of them, and obj(v) at most 64, those in the most texts.
//
// Guarantees:
//
//  1. A group's records are a function of its embeddings, the options and the group's id: the same bytes on every
//     machine, with any number of threads. Scores are exact (internal/neighbors/knn), and ties go to the lower position.
//  2. The first embedding of a pair is kept. Later ones are left out and counted in the manifest: those of the same group
//     as duplicates, and those of a pair that an earlier group has as repeats. A pair counts once in 1,048,576 embeddings
//     of its lane at least, and in half as many again at most: the window is cut into blocks by seq, and is a function of
//     the embeddings alone. What was left out is in the log, between the manifest's seqs and in none of its chunks.
//     Repeats that no group follows are counted by the seal. Positions are given in seq order.
//  3. After a crash, remembering the embeddings of the window before the open group's first seq, and adding those from
//     there on again, gives the same state.
//  4. With Options.Scope a group asks closed groups, of which whoever closes it brings the segments (outside.go). The group's
//     records are a function of these as well, and the manifest names them. With Options.Segments a group makes a segment of
//     its own.
//  5. Near-duplicates are found when the group closes, and are named in its chunks (near.go). Those that are dropped are no
//     members: clusters are made with them, neighbours and objects without.
//  6. With Options.Repack a group tells where its members' images are. Whoever makes copies of them notes these in the
//     chunks, and signs the manifest again, before anything of the group is published.
//  7. Memory per pair of dimension d is 4d bytes of vectors, outside the Go heap, about 64 bytes of ids and 4 bytes per
//     noun, and 16 bytes with Options.Repack; Close takes about 500 bytes more per pair while it runs (k=10, k1=5), 2 (d + 40) more
//     with Options.Segments, and about 500 more with Options.Scope. The
//     window takes about 28 bytes an embedding, 45 MB a lane at most.
//
// Concurrency: a Builder belongs to one goroutine. A [Live] may be searched and added to by any number.
//
// The package does not read topics, does not know time, and leaves heavy arithmetic to a [knn.Engine].
package indexer
