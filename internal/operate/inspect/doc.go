// Package inspect looks at a run from outside: how far every stage is in every lane, what waits where, and what was
// set aside. `pairstream status` and `pairstream dead-letters` print what it finds.
//
// It reads everything from the log itself. So any machine can ask, with or without the stages running:
//
//   - Records of a topic: the seq of its last record, plus one. All others in the log are repetitions that a restart
//     wrote. Readers drop them.
//   - Lag: offsets in a stage's main input behind the point that the stage has committed. If the mark of its last
//     output names a point further on, that one counts. Committed offsets are about a second old. Nothing but this
//     display uses them.
//   - Open group: embeddings behind the mark of the last manifest (or seal) of the lane. A pair that comes twice is
//     counted twice.
//
// Times are those that records carry, and informative. The package changes nothing in the log.
package inspect
