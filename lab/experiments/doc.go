// Package experiments repeats findings of the papers on generated scenes, whose truth is known. A [Plan] runs one
// experiment for one seed and returns its measures. Package evidence says what is read from them.
//
// X1 counts the false negatives among the hardest negatives of mini-batches, random and by GRIT (MAFA Table 1, figures
// 2 and 5). X8 measures obj(v), SE and clusters against the truth (GPN-S 3.2 to 3.4). Both need no training of their
// own: a [FirstModel] that all seeds share embeds the pairs.
//
// X2 trains many arms in the papers' regime: from one converged first model, with equal steps, with Con-Ds of several
// qualities, the truth and coins (GRIT-VLP Table 1, MAFA Tables 4, 5, 13, 14 and 16). The demo begins with the same
// models.
//
// X4 compares smoothed targets of ITC, and converting with eliminating, as the paper does: every arm's model is
// measured once more after fine-tuning (MAFA Tables 5 and 6).
//
// X5 trains several arms from one start, with equal steps: samplings (GRIT-VLP Tables 5 and 6). X6 does so with
// negatives of ITM and hidden words (GRIT-VLP Tables 1 and 2, figure 4). All models are asked about the same hard
// negatives: those that they find hardest together, without captions that happen to be true of the picture. X7 does so
// with GPN-S's ways to sample (Table 3, figure 6): a converged model finds the neighbours, and the arms begin with one
// that has learned nothing.
//
// X3, [Connections]: how much is true of what Con-D confirms among the hardest candidates of GRIT's mini-batches (MAFA
// 4.1). Con-D has learned from random mini-batches, and its vectors group the pairs. The generator tells for every
// candidate whether the caption is true of the picture, so precision and recall are exact. Arms are then trained with
// Con-D, with an oracle and with coins (MAFA Table 16).
//
// X14 asks what connections are worth where truth needs the picture, X15 where several hands drew the same things, and
// X16 on photographs as they are captioned. Three first models and three Con-Ds serve their nine seeds.
//
// X13 holds Con-D and the guard against what people judged of photographs.
//
// [NewWorld] compares arms on tars that the user brings, whose JSON says which pictures show the same.
//
// X10 measures what the recipes cost, by processor time (MAFA Table 12).
//
// Everything goes through the cores of the stages, one after the other in this process, without a log. The encoder and
// the indexer turn pairs into a group, and a lane of the grouper turns the group into mini-batches. The discriminator
// or the trainer takes the mini-batches, and the trainer's features go back into the grouper. On a CPU a result but
// X10's is a function of the sizes, the seed and the number of threads.
package experiments
