// Package evidence says what the experiments ask, keeps what they measured, and decides which claims hold.
//
// A [Result] holds the measures of every seed, with the cost, the machine and the revision. An [Experiment] says what
// is read from them: tables, figures and claims. A [Claim] compares two measures of the same seed. It holds when the 95
// % interval of the paired differences lies above 0. So one seed alone shows nothing.
//
// Settings are chosen on the seeds of [Tuning] and reported on those of [Experiment.Seeds], which differ.
//
// The package computes with no tensors. Package experiments makes the results; experiments/page makes the document.
package evidence
