// Package trainer is the core of the training stage: one step of GRIT-VLP, MAFA or GPN-S training per scored batch.
//
// A [schemas.ScoredBatch] goes in, with the pixels and the token ids of its samples. Out come the losses, counts and
// the [schemas.FeatureBlock] by which the grouper arranges the next epoch. The step adds four losses, each with its own
// weight, and updates the model by AdamW. They are the contrastive loss (ITC), the matching loss with hard negatives
// (ITM), masked language modelling (MLM) and GPN-S's uni-modal loss (L_uni).
//
// Invariants:
//
//  1. A step is a function of the weights, the optimiser's state, the options, the batch and its inputs. Masks and
//     drawn negatives come from a generator keyed by the seed and the batch's lane, group, epoch and sequence. There is
//     no other randomness and no clock. With one seed and one order of batches two runs on a CPU end in the same bytes.
//  2. A [Checkpoint] is the whole state: N steps, or k steps, a checkpoint, a restart and N-k steps, give the same bytes.
//  3. A checkpoint file is complete or refused: it is written beside its final name, synced and renamed, and carries a
//     SHA-256 over its content.
//  4. A negative is never a known positive: samples that show the same image are excluded from mining and share the ITC
//     targets.
//  5. A batch whose loss is not a finite number changes no weight. After [Options.Tries] tries it is set aside: its step
//     counts, and its features travel with every sample masked. With [ITCOptions.Gather] they have travelled before.
//  6. A masked sample has no part in any loss: the losses are those of the batch without it. Its features travel.
//
// Edge cases: in a batch of one, ITC is 0 (one candidate) and ITM has the true pair alone. In a batch whose candidates
// are all connections, ITM has no negatives and every label is 1. An anchor without candidates gives no ITM pair.
// Neither does an ambiguous one without a second candidate. A batch in which masking selected no token has an MLM loss
// of 0.
//
// A [Trainer] is not safe for concurrent use; its tensors live on the worker of its model. The package reads no files
// but checkpoints, and knows no log: images arrive as pixels, texts as token ids.
package trainer
