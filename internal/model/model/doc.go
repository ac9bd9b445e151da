// Package model holds the networks: the ALBEF architecture that GRIT-VLP and MAFA train, CLIP, and TorchScript dual
// encoders. ALBEF has a vision transformer, and a BERT-style text encoder whose upper layers fuse text with image by
// cross-attention. It has projections for ITC and heads for ITM and MLM.
//
// Weights come from safetensors files or from a seed. The names in the files are those of the authors' PyTorch code,
// and Hugging Face's for CLIP. The inputs are normalised pixels of images and ids of texts. The outputs are tensors of
// internal/model/torch, with gradients if requested.
//
// Invariants:
//
//  1. A tensor's initial values are a function of the seed, its name and its shape: a change elsewhere in the
//     configuration does not change them.
//  2. The same weights, configuration and vocabulary give the same fingerprint, and different ones another.
//  3. A weights file written by [Model.Save] is complete: configuration and vocabulary are inside.
//  4. Row i of an [Encoder]'s result is a function of input i and the weights, bit for bit. It does not depend on the
//     other inputs of the call, on input i's position among them, or on earlier calls. On a GPU its position in the
//     batch matters, because libtorch multiplies the edges of a matrix in another way.
//  5. Files may come from anywhere: sizes are checked before memory is allocated. TorchScript is the exception: such
//     a file is a program.
//
// The forward methods take a scope and run inside [torch.Worker.Do]; the other methods call the worker themselves. The
// worker runs one job at a time, so a model is safe for concurrent use.
//
// [Score] matches many pairs of texts and images. Pairs go through the fusion encoder in chunks, so memory is bounded.
// On a GPU all chunks have one size, and the last one is filled up. On a CPU a pair's score is a function of its image and its text to
// the last bit. Work that does not depend on the pairing is done once for each text and each image.
//
// There is no dropout unless [Model.SetDropout] sets it; [torch.Scope.Seed] then decides which activations are dropped.
package model
