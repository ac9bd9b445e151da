// Package model holds the networks: the ALBEF architecture that GRIT-VLP and MAFA train (a vision transformer, a
// BERT-style text encoder whose upper half fuses text with image by cross-attention, projections for ITC, heads for ITM
// and MLM), CLIP, and TorchScript dual encoders.
//
// In go weights files (safetensors; the names are those of the authors' PyTorch code, and Hugging Face's for CLIP) or a
// seed; images as normalised pixels, texts as ids. Out come tensors of internal/torch, with gradients where wanted.
//
// Invariants:
//
//  1. A tensor's initial values are a function of the seed, its name and its shape: a change elsewhere in the
//     configuration does not change them.
//  2. The same weights, configuration and vocabulary give the same fingerprint, and different ones another.
//  3. A weights file that was written by [Model.Save] needs nothing beside it: configuration and vocabulary are inside.
//  4. Row i of what a [DualEncoder] returns is a function of input i and the weights, bit for bit: neither the other
//     inputs of the call nor input i's place among them, nor earlier calls, have a part in it.
//  5. Files may come from anywhere: sizes are checked before memory is taken. TorchScript is the exception: such a file
//     is a program.
//
// The forward methods take a scope and run inside [torch.Worker.Do]; the others go to the worker themselves. A model is
// safe for concurrent use in so far as its worker does one thing after the other.
//
// There is no dropout unless [Model.SetDropout] asks for it; what it drops then is a function of [torch.Scope.Seed].
package model
