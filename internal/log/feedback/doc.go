// Package feedback takes what people say of connections into the guard of the discriminator.
//
// People judge when they like, so what a lane knows of their judgements at some place of its batches is chance. Owners
// agree on it (package internal/log/decision):
//
//  1. A place is the first batch of an epoch of a group, with the Con-D and the threshold that the judgements are about.
//  2. A note has the counts themselves. So a replay needs the notes, and not the judgements.
package feedback
