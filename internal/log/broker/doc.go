// Package broker runs a Kafka-protocol broker in the process: the embedded log of one machine. It is kfake, of
// franz-go, with four layers around it. A guard passes only valid Kafka protocol. Our own file system replaces kfake's
// and makes its files durable. Every answer waits until the data that it reports is on the disk. Clients in the same
// process connect through memory.
//
// [Start] starts a [Broker] on a loopback address. With a data directory it keeps the log there, otherwise in memory.
//
// # The promise
//
//  1. Acknowledged data survives a kill and a loss of power at every moment: records, topics, their deletion, and the
//     offsets of groups. For a compacted topic that is the last record of every key.
//  2. A damaged log is not served. [Start] returns a [DamageError] with the file, the position and the remedy, and
//     leaves the file unchanged. Checksums of batches, entries and JSON files reveal damage, and so does a gap
//     between offsets.
//  3. A full disk costs only time. Producers and creators of topics get KAFKA_STORAGE_ERROR with the cause, and
//     others are asked to retry. The log continues as soon as there is room.
//  4. Any other error of the disk stops the broker. It answers no more, and [Broker.Wait] and clients get
//     [ErrStopped] with the cause.
//
// A kill may cut the last batch of a log short. That batch was never acknowledged, and the next start removes it with a
// warning.
package broker
