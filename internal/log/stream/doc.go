// Package stream runs the stages on the log. It holds lanes and their owners, resuming after a crash, and readers
// that see every record once. It also holds publishing, dead letters and the skips of operators. It reaches the brokers
// through internal/log/kafka, and names no client library.
//
// A program opens a [Log] with [Connect] and runs stages on it with [Log.Run]. A [Follower] reads lanes for the
// trainer, whose work goes across lanes. [Reader] and [Publisher] are the level below, for producers and tools. A stage
// reads the lanes of its input topics and writes the same lanes of its output topics.
//
// # The promise
//
// The stage's code defines a sequence of records on its inputs. Readers of this package see exactly that sequence in
// the lane. Nothing is lost or repeated, whichever process is killed or paused, and whenever.
//
// The promise rests on three conditions. The stage is a pure function of its input records. Brokers keep records that
// they have acknowledged. Only the stage itself writes records with seqs to its outputs.
//
// The promise does not cover a record's offset. Repetitions shift offsets, so two runs agree in seqs and values but not
// in offsets. (On `pairs`, which no stage writes, an offset is as good as a seq.)
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
//     below s. An owner starts with a seq at most one above a seq that it has read from the log (4), and numbers
//     without gaps. It has at most one batch of a lane in flight, and sends the next after the ack of the one before. A
//     broker appends a batch as a whole or not at all. This holds for each owner by itself, so it holds for any number
//     of owners that write at once, in any interleaving:
//
//     - An owner may be fenced and still write, for example if another took its lane over while it was paused. It
//     continues its own sequence. Its records repeat the new owner's, or the new owner will repeat them.
//
//     - The answer to a produce request may be lost. Or a paused broker executes the request long after the owner gave
//     it up and sent the batch again. The batch is then in the log twice, the second time perhaps behind later ones: a
//     repetition.
//
//  3. A [Reader] that expects seq e drops records with seqs below e and returns the one with seq e. By 2, the next
//     first occurrence has seq e. A higher seq means that the log has lost records. The reader reports it as a
//     [GapError] and never skips it. A [Position] holds the expected seq besides the offset. So a reader that starts in
//     the middle of the lane, between repetitions, is as good as one that has read the lane from the start.
//
//  4. A new owner reads the last record of the log that has a seq and a mark. Call its seq s. By 2, everything up to
//     s is in the log. The owner suppresses its repeated records up to s, and writes from s+1 on. The last record may
//     be a repetition (2) with others above s before it. Then the owner repeats those, which is harmless by 1.
//
//     By 2, no record has an offset below its seq. If one has, the topic was recreated under its owner, or has lost
//     records. The owner sees that in the ack, and in the last record. It parks the lane.
//
//  5. A mark m is sound when the stage, started from m, produces every record that comes after m.Seqs. A stage gives
//     only sound marks to Emit, and none that lies ahead. So m.Seqs is at most one above the seq of the record that
//     carries it, and m.Inputs lies within the records read (Emit checks both). A stage may read its own output again
//     (StageSpec.Rereads), from a seq that the mark names up to m.Seqs. These records are in the log when the mark is
//     covered.
//
//     With several outputs, a mark in one log can lie ahead of another log, if the latter's records were not
//     acknowledged when the owner died. So a new owner compares the marks at the ends of its logs, and takes the
//     furthest covered mark m. A mark is covered when, for every output, all seqs below m.Seqs are in its log by 4.
//     There is always one: the mark at the end of the log whose last mark lies furthest back. It is the zero mark if a
//     log is empty and no mark passes over its records. With 4, the new owner produces every record that is missing
//     from any log, and skips none.
//
//  6. A broker returns a compressed batch from its start. A read discards records before the wanted offset. The
//     search for the last record need not, because earlier records cannot be the last. It goes backwards, past
//     control batches and records without a seq (foreign ones) at the end of the log.
//
//  7. A record that is set aside is in dead-letters, acknowledged, before any later mark is sent. The publisher sends
//     no record while an earlier dead letter has no ack. Dead letters may overtake records that were given before
//     them. Those records have earlier marks, or the next owner writes them again. So a crash may repeat a dead
//     letter, but not lose one. [Log.DeadLetters] skips repetitions.
//
//  8. Offsets committed to the consumer group are for lag dashboards, and no stage reads them. The group decides only
//     which process runs a lane, and correctness does not depend on that being one process at a time (2).
//
// # Failures
//
// A stage's error decides what happens:
//
//   - [ErrPoison]: the record is set aside.
//   - [ErrTransient], or an error of the network: the lane is restarted from its last mark, after a pause, without
//     limit.
//   - [ErrNotYet]: the stage gets the record again, soon and for as long as it takes. The lane stays as it is.
//   - Anything else parks the lane: it rests, says why, and is tried again every minute. The other lanes continue.
//     Such faults are a gap, a record that its topic refuses, a broker's refusal and a record of a newer version. If
//     all lanes of a process are parked, at least one of them by another kind of fault, the process is to blame and
//     [Log.Run] ends. A [Follower] does the same.
//
// A lane that is parked, or has waited for a minute, says so: in the metadata of its committed offset ([LaneLag]), in
// the log, in a metric and in [Counters.States]. An operator can make a parked lane continue with [Log.Skip]. All
// readers follow.
//
// Requests to brokers are repeated without limit, with backoff, unless the answer says that this is useless. A
// publisher looks in the log for a batch whose ack is late before it sends it again. The next ack may then take twice
// as long. Hanging connections are closed after Config.RequestTimeout.
//
// # Foreign and damaged batches
//
// Package kafka decodes a batch within bounds, and skips aborted transactions. An unreadable batch is set aside as one
// dead letter that names its offsets. A dead letter that its topic refuses is shortened, and says so.
//
// # Notes
//
// The control topic is compacted, so retention does not delete from it. It holds each stage's stopping point in each
// lane, the skips of operators, and which dead letters were put back. The topic of sources is also compacted. It holds
// how much of every tar producers have published.
//
// # Memory
//
// Config.MaxBytesInFlight bounds the bytes of a stage in one process: records read and not yet processed, and records
// emitted and not yet acknowledged. The bytes are divided among the lanes, and a lane's share among its inputs and its
// output. A share may be exceeded by one fetch (8 MiB of records with their headers) or one record.
package stream
