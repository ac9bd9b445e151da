// Package inspect looks at a run from outside: how far every stage is in every lane, what waits where, and what was set
// aside. `pairstream status` and `pairstream dead-letters` print what it finds.
//
// Everything is read from the log itself, so it can be asked from any machine, with or without the stages running:
//
//   - Records of a topic: the seq of its last record, plus one. What the log holds beyond that are repetitions that a
//     restart wrote; readers drop them.
//   - Lag: offsets in a stage's main input behind the point that the stage has committed, or that the mark of its last
//     output names if that is further. Committed offsets are about a second old; nothing but this display uses them.
//   - Open group: embeddings behind the mark of the last manifest (or seal) of the lane. A pair that comes twice is
//     counted twice.
//
// Times are those that records carry, and informative. The package changes nothing in the log.
package inspect
