// Package stream runs the stages on the log. It holds lanes and their owners, resuming after a crash, and readers
// that see every record once. It also holds publishing, dead letters and the skips of operators. It reaches the brokers
// through internal/log/kafka, and names no client library.
//
// A program opens a [Log] with [Connect] and runs stages on it with [Log.Run]. A [Follower] reads lanes for a stage
// whose work goes across them, the trainer. [Reader] and [Publisher] are the level below, for producers and tools. In
// come the lanes of a stage's input topics, out go the same lanes of its output topics.
//
// # What is promised
//
// The stage's code defines a sequence of records on its inputs. Readers of this package see exactly that sequence in
// the lane. Nothing is lost and nothing is there twice, whatever process is killed or paused, and whenever.
//
// The promise rests on three conditions. The stage is a pure function of its input records. Brokers keep what they
// have acknowledged. Nobody else writes records with seqs to a stage's outputs.
//
// The place of a record in the log is not part of the promise. Repetitions shift offsets, so two runs agree in seqs
// and values but not in offsets. (On `pairs`, which no stage writes, an offset is as good as a seq.)
//
// # Invariants
//
// "The log" below is one lane of one output topic of one stage. The stage numbers its outputs 0, 1, 2, ...: header
// "seq". Header "src" is a [Mark].
//
//  1. Same seq, same record. All records of the log with seq s have the same schema and value. The reason: the stage
//     is deterministic and starts again only from marks that it made itself. So records may be repeated in the log
//     without harm.
//
//  2. First occurrences are in order and without gaps: before a record with seq s there are records with all seqs
//     below s. An owner starts with a seq not above one that it has read from the log plus one (4), and numbers
//     without gaps. It has at most one batch of a lane on its way. It sends the next after the broker has
//     acknowledged the one before. A broker appends a batch as a whole or not at all. This holds for each owner by
//     itself, so it holds for any number of owners writing at once, in any interleaving:
//
//     - An owner may be fenced and still write: another took its lane over while it was paused, say. It continues
//     what it wrote before. Its records repeat what the new owner writes, or the new owner will repeat them.
//
//     - The answer to a produce request may be lost. Or a paused broker executes the request long after it was given
//     up. The owner has sent the batch again meanwhile. The batch is then in the log twice, the second time perhaps
//     behind later ones: a repetition.
//
//  3. A [Reader] that expects seq e drops records with seqs below e and returns the one with seq e. By 2, the next
//     first occurrence has seq e. A higher seq means that the log has lost records. The reader reports it as a
//     [GapError] and never passes over it. A [Position] holds the expected seq besides the offset. So a reader may
//     start in the middle of the lane, between repetitions. It is as good as one that has read the lane from the
//     start.
//
//  4. A new owner reads the last record of the log that has a seq and a mark. Call its seq s. By 2, everything up to
//     s is in the log. The owner suppresses what it produces again up to s, and writes from s+1 on. The last record
//     may be a repetition (2) with others above s before it. Then the owner repeats those, which is harmless by 1.
//
//     By 2, no record has an offset below its seq. If one has, the topic was made anew under its owner, or has lost
//     records. The owner sees that in the ack, and in the last record. It parks the lane.
//
//  5. A mark m is sound when the stage, started from m, produces every record that comes after m.Seqs. A stage gives
//     only sound marks to Emit, and none that lies ahead. So m.Seqs is at most one above the seq of the record that
//     carries it, and m.Inputs lies within what was read (Emit checks both). A stage may read its own output again
//     (StageSpec.Rereads), from a seq that the mark names up to m.Seqs. These records are in the log when the mark is
//     covered.
//
//     With several outputs, a mark in one log can still lie ahead of another log, whose records were not acknowledged
//     when the owner died. So a new owner looks at the marks at the ends of its logs, and takes the furthest mark m
//     that is covered. A mark is covered when, for every output, all seqs below m.Seqs are in its log by 4. There
//     always is one. It is the mark at the end of the log whose last mark lies furthest back. If a log is empty and
//     no mark passes over its records, it is the zero mark. With 4, the new owner produces every record that is
//     missing from any log, and skips none.
//
//  6. A batch may be compressed, and then a broker returns it from its start. A read discards what lies before the
//     offset that it wants. The search for the last record does not need to, as earlier records cannot be the last.
//     It goes backwards, past control batches and records without a seq (foreign ones) at the end of the log.
//
//  7. A record that is set aside is in dead-letters, acknowledged, before a mark that lies after it is sent. The
//     publisher sends no record while a dead letter that it was given earlier has no ack. Dead letters may be ahead
//     of records that were given before them. Those records have marks that lie before, or the next owner writes them
//     again. So a crash may repeat a dead letter, but not lose one. [Log.DeadLetters] passes over repetitions.
//
//  8. Offsets committed to the consumer group are for lag dashboards. Nothing is read from there. The group decides
//     only who runs a lane, and correctness does not depend on that being one process at a time (2).
//
// # Failures
//
// A stage's error decides what happens:
//
//   - [ErrPoison]: the record is set aside.
//   - [ErrTransient], or an error of the network: the lane is begun again from its last mark, after a pause, for
//     ever.
//   - [ErrNotYet]: the stage gets the record again, soon and for as long as it takes. The lane stays as it is.
//   - Anything else parks the lane: it rests, says why, and is tried again every minute. The other lanes go on. Such
//     faults are a gap, a record that its topic does not take, a broker's refusal and a record of a newer version.
//     When all lanes of a process are parked, one of them by another fault, the process is to blame and [Log.Run]
//     ends. A [Follower] does the same.
//
// A lane that is parked, or has waited for a minute, says so: in the metadata of its committed offset ([LaneLag]), in
// the log, in a metric and in [Counters.States]. An operator can let a parked lane go on with [Log.Skip]. All readers
// follow.
//
// Requests to brokers are repeated for ever, with backoff, unless the answer says that it is no use. A publisher
// looks in the log for a batch whose ack is late before it sends it again. The next ack may then take twice as long.
// Connections that hang are given up after Config.RequestTimeout.
//
// # What others write
//
// Package kafka decodes a batch within bounds, and passes over aborted transactions. A batch that cannot be read is set
// aside as one dead letter that names its offsets. A dead letter that its topic does not take is cut, and says so.
//
// # Notes
//
// The control topic is compacted, so retention does not reach it. It holds where each stage has stopped in each lane,
// the skips of operators, and which dead letters were put back. The topic of sources is compacted as well. It holds how
// much of every tar producers have published.
//
// # Memory
//
// Config.MaxBytesInFlight bounds the bytes of a stage in one process. It counts what was read and not yet processed,
// and what was emitted and not yet acknowledged. The bytes are divided among the lanes, and a lane's share among its
// inputs and its output. A share is exceeded by at most one fetch (8 MiB of records with their headers) or one
// record.
package stream
