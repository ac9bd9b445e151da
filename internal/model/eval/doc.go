// Package eval measures a model on held-out pairs. It measures retrieval in both directions, as the papers report it,
// and the errors of the matching head. [AskCond] measures it as a connection discriminator (Con-D), on the hardest
// negatives of every pair, and [Cond.Calibrate] calibrates its probabilities there. [ZeroShot] classifies images, and
// [Winoground] scores pairs of images and captions.
//
// The metrics are pure functions over matrices of scores. [Evaluate] makes the scores with a model. Recalls are in
// percent. Equal scores rank by position, and a NaN score ranks last.
package eval
