// Package token turns captions into token ids: BERT's uncased WordPiece, for the text and fusion encoders, and CLIP's
// byte-pair encoding and SigLIP's unigram model, for off-the-shelf encoders. [BuildVocab] makes a WordPiece vocabulary from captions.
//
// It turns caption strings into ids of a vocabulary. Guarantees:
//
//  1. Same ids as the reference tokenizers (BertTokenizer of transformers, uncased; SimpleTokenizer of openai/CLIP
//     without its optional ftfy repair; SentencePiece), special tokens of BERT and CLIP written out in a caption included.
//  2. Any string is accepted, bytes that are not UTF-8 included; no input makes a tokenizer panic, and time grows with
//     the length of the text alone, except for CLIP words of thousands of bytes, where it grows with the square.
//  3. Encode never returns more than the ids asked for. All but SigLIP's stop reading the text when they have them.
//
// Tokenizers are immutable and safe for concurrent use.
//
// No other library is used: of the Go libraries considered, only sugarme/tokenizer does both encodings. Its v0.3.0 gets
// 6 of our 107 reference texts wrong (accents, no-break spaces, Hangul, joiners, written-out special tokens) and panics
// on "ß İstanbul ı", takes 77 µs a caption where this package takes 3, and adds eight modules.
package token
