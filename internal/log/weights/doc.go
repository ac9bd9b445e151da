// Package weights lets the encoder follow the weights of the trainer. It holds the file names of published weights, and
// the notes about them in the log.
//
// The trainer writes a file of weights, and then a note that announces it. A lane of the encoder chooses weights at the
// borders of its spans (package encoder/service), and notes the choice before it uses them. So:
//
//  1. Notes are never replaced: each has a key of its own, and their order is that of the log. Compaction keeps them all.
//  2. The first valid choice for a position counts. An owner that needs a choice writes a proposal, waits for its
//     ack, reads the notes again and takes the choice that counts. So all owners of a lane agree, even one that was
//     paused and has lost the lane.
//  3. The trainer notes that weights are retired before it removes their file. A later choice of these weights is
//     invalid. Weights that were chosen before keep their file for good: a lane may be in the middle of a span, and a
//     replay needs them.
//
// Records of the log depend on choices alone, not on when weights were announced.
package weights
