// Package hardcaption compares what English captions say of things: which thing, of which colour, and how many.
//
// In come captions as words with their parts of speech. Out come two kinds of texts that are no match of an image. One
// is another caption that contradicts the image's own ([Caption.Contradicts]): a blue star where the own caption has
// red ones alone. The other is the own caption with one word replaced ([Edit]): a noun or a colour by another one of
// the captions beside it.
//
// Invariants:
//
//  1. Results are a function of the captions and the draws.
//  2. What a caption leaves out contradicts nothing. "A dog" and "two brown dogs on a lawn" agree.
//
// It knows the colours and numbers of English. In another language it finds nothing. Truth is not certain: a noun may
// be replaced by a word of nearly the same meaning, and an image may show two stars of which its caption names one.
package hardcaption
