// Package hardcaption compares the objects of English captions: which objects, of which colour, and how many.
//
// It takes captions as words with their parts of speech, and gives two kinds of texts that do not match an image. One
// is another caption that contradicts the image's own ([Caption.Contradicts]): a blue star where the image's caption
// has only red ones. The other is the image's caption with one word replaced ([Edit]): a noun or a colour by one from
// the neighbouring captions.
//
// Invariants:
//
//  1. Results are a function of the captions and the draws.
//  2. An omission contradicts nothing. "A dog" and "two brown dogs on a lawn" agree.
//
// It knows the colours and numbers of English. In another language it finds nothing. Truth is not certain: the
// replacement for a noun may mean nearly the same, and an image may show two stars where its caption names one.
package hardcaption
