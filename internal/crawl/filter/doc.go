// Package filter decides by rules in CEL which pairs of a crawl are kept.
//
// In come the text of the rules, once, and what is known of a pair; out goes the first rule that the pair does not
// meet. A rule is a name and an expression that says what is kept; a pair is kept if it meets all of them. See [Parse]
// for the form of the text, and [Variables] for what expressions may speak of.
//
// Guarantees:
//
//  1. A verdict is a function of the rules and of the pair: no clock, no order of maps, no randomness.
//  2. Rules are judged in three rounds, by what they speak of: words, then the image's size, then its similarity. Within a
//     round they are judged in their order. So a pair that fails a rule on its words is never loaded.
//  3. An expression that cannot be evaluated, because a column is missing, say, does not hold. The verdict says why.
//  4. The work of one expression on one pair is bounded.
//
// Rules are safe for concurrent use. The package knows nothing of topics and settings.
package filter
