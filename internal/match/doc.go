// Package match turns texts and pixels into a model's inputs and scores many pairs of them with its matching head.
//
// Pairs go through the fusion encoder in parts of one fixed size, the last one filled up: memory stays bounded however
// many pairs there are, and a pair's score is a function of its image, its text and its place in the part, to the last
// bit, whatever it shares the part with. What texts and images bring to every pair is computed once.
package match
