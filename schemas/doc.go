// Package schemas is the wire: one Go type per record, the catalogue of topics, and the codec.
//
// A record travels as the value of a Kafka message: a msgpack map with snake_case keys. Three headers go with it.
// "schema" names the type and its major version ("pairstream.pair/1"). "seq" numbers the records that a stage wrote
// to one lane of one topic (0, 1, 2, ... without gaps). "src" says from where that stage must read its inputs to
// produce the records after this one (see internal/log/stream). Records of outside producers carry only "schema".
//
// Invariants:
//
//  1. Same value, same bytes. [Marshal] is a pure function (struct order, sorted maps, compact integers). It omits
//     empty optional fields.
//  2. A validator walks bytes from a topic before they are decoded. It checks every declared length against the bytes
//     that are there, and every value against the type of its field. So decoding allocates no more than a small
//     multiple of the input, and no number wraps.
//  3. [Unmarshal] returns a valid record or an error that wraps [ErrMalformed], [ErrUnknownSchema] or [ErrInvalid];
//     never both, never a panic.
//  4. Compatibility: within a major version keys are only added. A reader ignores keys that it does not know. It
//     takes a key that is absent (or nil) for the zero value of its field. A new value of an enumeration is a change.
//     A reader refuses a major version that it does not know.
//
// Vectors are little-endian float16 in one bin value, rows after one another. Columns of integers are little-endian
// int32 in one bin value.
//
// The package imports no stage and no Kafka client, and is safe for concurrent use.
package schemas
