// Package inspect reads the state of a run: the progress of every stage in every lane, waiting records and dead letters.
// `pairstream status` and `pairstream dead-letters` print it.
//
// All of it comes from the log, so any machine that reaches the log can read it, whether or not the stages run:
//
//   - Records of a topic: the seq of its last record, plus one. Any further records are repetitions that a restart has
//     written. Readers drop them.
//   - Lag: offsets in a stage's main input after the offset that the stage has committed, or after the mark of its last
//     output if that is higher. Committed offsets are about a second old and serve this display only.
//   - Open group: embeddings after the mark of the lane's last manifest or seal. A repeated pair counts each time.
//
// Times are taken from the records and serve as information. The package writes nothing to the log.
package inspect
