// Package match turns texts and pixels into a model's inputs and scores many pairs of them with its matching head.
//
// Pairs go through the fusion encoder in parts of one fixed size, the last one filled up: memory stays bounded however
// many pairs there are, and on a CPU a pair's score is a function of its image and its text to the last bit, wherever it
// stands and whatever it shares its part with. What texts and images bring to every pair is computed once.
package match
