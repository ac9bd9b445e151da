// Package grouper decides which pairs of a group are trained on together, and in what order: the core of the stage that
// turns groups into mini-batches.
//
// In come the records of a lane: for each group its manifest, its neighbour chunks and its embeddings. Where the
// strategy asks for them, the features follow that the training model made of the epoch before. Out come the
// mini-batches of every epoch. Each sample has the text to train on, a positive image, known partners and its hardest
// candidates.
//
// [Lane] is the state machine. [Random], [GRIT], [GNS], [JEST], [B3] or a [Planner] plan an epoch. [Walk] orders pairs by
// similarity. [HardCandidates] and [Alpha] fill a mini-batch.
//
// Guarantees:
//
//  1. Same records, options and seed, same mini-batches, on every machine and for every number of workers. Every draw
//     comes from a generator keyed by (seed, purpose, lane, group, epoch, ...); similarities have one order of summation
//     (package dot); equals go to the lower index.
//  2. In every epoch each pair of the group is in exactly one mini-batch; [JEST] leaves pairs out of the epochs after the
//     first. All mini-batches have the configured size; the last may be smaller.
//  3. Two pairs that show the same image are in one mini-batch only when nothing else is left: see [Walk] and [Random].
//  4. A sample is never its own candidate, and neither is a partner, a sample that shows the same image.
//
// Memory: an open group of n pairs with encoder vectors of d values takes about n * (200 + 4d) bytes. The 200 cover
// ids, a caption of 60 bytes, references, neighbours, orders and the epochs of features. GRIT on training features of
// width w takes n * 4w in place of the vectors, JEST beside them. A walk over M pairs adds M * (14d + 6 sqrt(M) + 160)
// bytes for each worker, a super-batch of B pairs B * (8d + 8w + N), and a search space of B3 M * (12d + 1200).
//
// A Lane is used by one goroutine; functions are safe for concurrent use. Nothing here reads a clock, talks to Kafka or
// needs cgo.
package grouper
