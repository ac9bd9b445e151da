// Package judged takes what people say of connections into the guard of the discriminator.
//
// People judge when they like, so what a lane knows of their judgements at some place of its batches is chance. The lane
// notes in the log what counts from a place on, before it uses it, as the encoder does with the weights that it follows
// (package internal/latest):
//
//  1. A place is the first batch of an epoch of a group, with the Con-D and the threshold that the judgements are about.
//  2. The first note of a place counts. Whoever wants to count writes a note, waits for its ack, reads the notes again and
//     takes what counts. So all owners of a lane go on alike, also one that was paused and is not the owner any more.
//  3. Notes are never replaced: each has a key of its own, and compaction keeps them all.
//  4. A note has the counts themselves. So a replay needs the notes, and not the judgements.
package judged
