// Package scenes makes captioned pictures whose truth is known: a few drawn objects with shape, colour, pattern, size,
// count and place, and captions from a grammar that say some of it.
//
// A [Scene] is drawn as a picture; a [Statement] is what a caption says; [Parse] reads a caption of the grammar back
// into its statement, and [Matches] decides whether any caption of the grammar is true of any scene. So a test knows
// not only which pairs were made together, but which pictures every caption fits: the false negatives of a mini-batch
// are known exactly.
//
// What captions mean:
//
//   - "a red circle" says that there is at least one; "one red circle", "two red circles" say how many there are, exactly.
//   - "a red circle and two stars" speaks of different objects: no object serves two parts of an enumeration.
//   - "a circle to the left of a star" says that there are two such objects, whose centres are at least [RelationGap] of
//     the side apart in that direction, however far they are apart in the other. "right of", "above", "below" likewise.
//   - A "cottage" is a house, and a "kitten" is a cat: [ShapeOf] tells the shape of every noun.
//   - "a striped cat" is striped; "a cat" may be.
//   - "something blue" is any object that is blue; "three things, one of them green" says how many there are in all, and that
//     exactly one is green.
//   - "shape" and "object" stand for any shape; what a caption leaves out may be anything.
//
// Scenes of two to four objects lie in the quarters of the picture, so that objects are either clearly beside one
// another or clearly not.
//
// Captions may be false ([Options.WrongShare]) or about nothing in the picture ([Options.IrrelevantShare]), and labels
// say so. [Options.FalseNegatives] decides how many pictures fit the captions of others. It does so by the share of
// captions that name one object alone.
//
// Everything is a function of the options: the same seed gives the same bytes, whatever the number of processors.
package scenes
