// Package scenes makes captioned pictures whose truth is known: a few drawn objects with shape, colour, pattern, size,
// count and position, and captions from a grammar that describe some of them.
//
// A [Scene] is drawn as a picture; a [Statement] is the meaning of a caption; [Parse] reads a caption of the grammar
// back into its statement, and [Matches] decides whether any caption of the grammar is true of any scene. So a test
// knows every picture that a caption fits, not only its own: the false negatives of a mini-batch are known exactly.
//
// The meaning of captions:
//
//   - "a red circle" means at least one; "one red circle", "two red circles" give the exact number.
//   - "a circle and a star" are different objects: no object serves two parts of an enumeration.
//   - "a circle to the left of a star" means that there are two such objects, whose centres are at least [RelationGap]
//     of the side apart in that direction, however far they are apart in the other. "right of", "above" and "below"
//     are alike.
//   - A "cottage" is a house, and a "kitten" is a cat: [ShapeOf] gives the shape of every noun.
//   - "a striped cat" is striped; "a cat" may be.
//   - "something blue" is any blue object; "three things, one of them green" gives the exact total, and the exact
//     number of green ones.
//   - "shape" and "object" mean any shape; omitted properties may have any value.
//
// Scenes of two to four objects lie in the quarters of the picture, so that objects are either clearly beside one
// another or clearly not.
//
// Captions may be false ([Options.WrongShare]) or unrelated to the picture ([Options.IrrelevantShare]), and labels say
// so. [Options.FalseNegatives] sets how many pictures fit the captions of others, through the share of captions that
// name only one object.
//
// Everything is a function of the options: the same seed gives the same bytes, for any number of processors.
package scenes
