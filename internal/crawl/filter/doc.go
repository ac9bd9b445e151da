// Package filter decides by rules in CEL which pairs of a crawl to keep.
//
// It reads the text of the rules once. For the facts of a pair it returns the first rule that the pair does not meet. A
// rule is a name and an expression that is true for a pair to keep; a pair is kept if it meets all rules. See [Parse]
// for the form of the text, and [Variables] for the variables of expressions.
//
// Guarantees:
//
//  1. A verdict is a function of the rules and of the pair: no clock, no order of maps, no randomness.
//  2. Rules are judged in three rounds, by the variables that they use: words, then the image's size, then its
//     similarity. Within a round they are judged in their order. So a pair that fails a rule on its words is never
//     loaded.
//  3. An expression that cannot be evaluated, for example because a column is missing, counts as false. The verdict
//     says why.
//  4. The work of one expression on one pair is bounded.
//
// Rules are safe for concurrent use. The package knows nothing of topics and settings.
package filter
