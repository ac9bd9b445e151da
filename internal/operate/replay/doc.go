// Package replay repeats a run beside the original and reports the first record that differs.
//
// A [Manifest] describes a run: the offsets of `pairs` that it read in each lane, its settings, its models, and the
// digest of every lane of every topic that the stages wrote. [Run] copies those pairs into another namespace and starts
// the stages there. It compares their records with the original's as they appear.
//
// The comparison covers the schema, seq and value of every record, each once, in order, as a reader of the log sees
// them. The number of processes of a stage, the owners of lanes, and kills and repetitions change nothing. Offsets, times
// and resume marks are left out, because the offsets of a copy start at 0.
//
// One kind of value contains an offset. The encoder spools inline images into tars that are named after the offset of a
// pair, and a replay spools into a folder of its own. Such a reference counts as equal if it names the same lane, the
// same pair and the same bytes of its tar. The result counts these references ("equal but for").
//
// Guarantees:
//
//  1. A lane is reported as equal in two cases only. Either the digest of the replay's records is that of the manifest,
//     or every record was compared with the original's and they differ only in references to spooled images.
//  2. A replay writes nothing to the original's namespace. It refuses a namespace whose pairs are not the first part of
//     the copy. An interrupted replay continues when it is started again.
//  3. Copied pairs keep key, headers and bytes. The copy is read back and compared before the stages start.
//
// The package starts no stage itself: the caller passes a [Runner].
package replay
