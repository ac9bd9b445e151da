// Package experiments repeats two claims of the papers about training on generated scenes, whose truth is known.
//
// [Sampling]: with equal steps, mini-batches by GRIT leave a lower held-out ITM error than random ones (GRIT-VLP Tables 1
// and 4). Both trainings begin with the same first model, see every pair equally often and differ in the order alone. All
// models are asked about the same hard negatives. These are the ones that the two models together find hardest, without
// captions that happen to be true of the picture.
//
// [Connections]: what Con-D confirms among the hardest candidates of GRIT's mini-batches is true (MAFA section 4.1). Con-D
// is the model that GRIT's mini-batches made, as in the paper. The generator tells for every candidate whether the caption
// is true of the picture, so precision and recall are exact.
//
// Everything goes through the cores of the stages, one after the other in this process, without a log. The encoder and the
// indexer turn pairs into a group, and a lane of the grouper turns the group into mini-batches. The discriminator or the
// trainer takes the mini-batches, and the trainer's features go back into the grouper. On a CPU a result is a function of
// the sizes, the seed and the number of threads.
package experiments
