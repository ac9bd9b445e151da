// Package replay runs a run again beside the original and says whether the same came out.
//
// A [Manifest] describes a run. It says which offsets of `pairs` the run read, lane by lane, with which settings and
// models. It holds the digest of every lane of every topic that the stages wrote. [Run] copies those pairs into
// another namespace and lets the stages work on them. It compares what they write with the original, record by record
// as it appears.
//
// A comparison sees what a reader of the log sees: schema, seq and value of every record, each once, in order. So it
// does not matter how many processes ran a stage, who owned which lane, or how often something was killed and
// repeated. The comparison leaves out what a record's place in the log says (offsets, times, resume marks): offsets
// of a copy begin anew.
//
// There is one trace of offsets in values. Images that came inline are spooled into tars named by the offset of a
// pair, and a replay has its own folder of them. Such a reference counts as equal if it names the same lane, the same
// pair and the same bytes of its tar. The result says how many there were ("but for").
//
// Guarantees:
//
//  1. A lane is called equal only in two cases. Either the digest of what the replay wrote is that of the manifest.
//     Or every record was compared with the original's and differs in the places of spooled images alone.
//  2. Nothing in the original's namespace is written. A replay refuses a namespace whose pairs are not a beginning of
//     the copy. A replay that was interrupted goes on when it is started again.
//  3. Copied pairs keep key, headers and bytes. The copy is read back and compared before the stages start.
//
// The package runs no stage itself: the caller brings a [Runner].
package replay
