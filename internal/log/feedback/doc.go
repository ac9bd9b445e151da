// Package feedback brings people's judgements of connections into the guard of the discriminator.
//
// People judge at any time, so the judgements known to a lane at some batch are chance. Owners agree on them (package
// internal/log/decision):
//
//  1. A place is the first batch of an epoch of a group, with the Con-D and the threshold that the judgements
//     concern.
//  2. A note has the counts themselves. So a replay needs the notes, and not the judgements.
package feedback
