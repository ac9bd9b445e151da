// Package stream runs the stages on the log: lanes and their owners, resuming after a crash, readers that see every
// record once, publishing, dead letters, the embedded broker, and the security of connections. It is the only package
// that knows Kafka.
//
// A program opens a [Log] with [Connect] and runs stages on it with [Log.Run]; [Reader] and [Publisher] are the level
// below, for producers and the trainer. In come the lanes of a stage's input topics, out go the same lanes of its
// output topics.
//
// # What is promised
//
// The sequence of records in a lane, as readers of this package see it, is the one that the stage's code defines on its
// inputs: nothing is lost, nothing is there twice, whatever process is killed or paused, and whenever. It rests on the
// stage being a pure function of its input records, on brokers keeping what they have acknowledged, and on nobody
// else writing records with seqs to a stage's outputs. Where a record lies in the log is not part of the promise:
// repetitions shift offsets, so two runs agree in seqs and values but not in offsets. (On `pairs`, which no stage writes,
// an offset is as good as a seq.)
//
// # Invariants
//
// "The log" below is one lane of one output topic of one stage. The stage numbers its outputs 0, 1, 2, ...: header
// "seq". Header "src" is a [Mark].
//
//  1. Same seq, same record. What has seq s in the log has the same schema and value wherever it occurs, because the
//     stage is deterministic and starts again only from marks that it made itself. So records may be repeated in the
//     log without harm.
//
//  2. First occurrences are in order and without gaps: before a record with seq s there are records with all seqs below
//     s. An owner starts with a seq not above one that it has read from the log plus one (4), numbers without gaps, and
//     has at most one batch of a lane on its way: the next is sent after the broker has acknowledged the one before. A
//     broker appends a batch as a whole or not at all. This holds for each owner by itself, so it holds for any number
//     of owners writing at once, in any interleaving:
//
//     - An owner that was fenced (paused, say, while another took its lane over) and still writes, writes the
//     continuation of what it wrote before: repetitions of what the new owner writes, or records that the new owner
//     will repeat.
//
//     - A produce request whose answer is lost, or which a paused broker executes long after it was given up, has been
//     sent again meanwhile. The batch is in the log twice, the second time perhaps behind later ones: a repetition.
//
//  3. A [Reader] that expects seq e drops records with seqs below e and returns the one with seq e. By 2, the next first
//     occurrence has seq e; a higher seq means that the log has lost records, and is reported as a [GapError], never
//     passed over. A [Position] holds the expected seq besides the offset, so a reader that starts in the middle of the
//     lane, between repetitions, is as good as one that has read it from the start.
//
//  4. A new owner reads the last record of the log that has a seq and a mark; be its seq s. By 2, everything up to s is
//     in the log. The owner suppresses what it produces again up to s, and writes from s+1 on. The last record may be a
//     repetition (2) with others above s before it; then the owner repeats those, which is harmless by 1.
//
//  5. A mark m is sound when the stage, started from m, produces every record that comes after m.Seqs. A stage gives
//     only sound marks to Emit, and none that lies ahead: m.Seqs is at most one above the seq of the record that carries
//     it, and m.Inputs lies within what was read (Emit checks both). With several outputs, a mark in one log can still
//     lie ahead of another log, whose records were not acknowledged when the owner died. So a new owner takes the
//     furthest mark m, among those at the ends of its logs, that is covered: for every output, all seqs below m.Seqs are
//     in its log by 4. There always is one: the mark at the end of the log whose last mark lies furthest back, or the
//     zero mark if a log is empty and no mark passes over its records.
//     With 4, the new owner produces every record that is missing from any log, and none is skipped.
//
//  6. A batch may be compressed, and then a broker returns it from its start. A read discards what lies before the
//     offset that it wants; the search for the last record does not need to, as earlier records cannot be the last.
//     Control batches and records without a seq (foreign ones) at the end of the log are passed over, backwards.
//
//  7. A record that is set aside is in dead-letters, acknowledged, before a mark that lies after it is sent: no record is
//     sent while a dead letter that was given to the same publisher before it has no ack. Dead letters may be ahead of
//     records that were given before them; those have marks that lie before, or are written again by the next owner. So
//     a crash may repeat a dead letter, but not lose one; [Log.DeadLetters] passes over repetitions.
//
//  8. Offsets committed to the consumer group are for lag dashboards. Nothing is read from there. The group decides only
//     who runs a lane, and correctness does not depend on that being one process at a time (2).
//
// # Failures
//
// A stage's error wraps [ErrPoison] (the record is set aside), is a network error or wraps [ErrTransient] (the lane is
// taken down and begun again from its last mark, after a pause, for ever), or ends [Log.Run]. Requests to brokers are
// repeated for ever, with backoff, unless the answer says that it is no use. Connections that hang are given up after
// Config.RequestTimeout.
//
// # Memory
//
// Config.MaxBytesInFlight bounds the bytes of a stage in one process that were read and not yet processed, or emitted
// and not yet acknowledged. It is divided among the lanes, and a lane's share among its inputs and its output. A share
// is exceeded by at most one fetch (1 MiB, or one batch if that is larger) or one record.
package stream
