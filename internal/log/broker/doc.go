// Package broker runs a Kafka-protocol broker in the process: the embedded log of one machine. It is kfake, of
// franz-go, with four layers around it. A guard passes on only what is the Kafka protocol. kfake's file system is ours,
// and makes its files last. Every answer waits until what it tells of is on the disk. Clients in the same process
// connect through memory.
//
// [Start] starts a [Broker] on a loopback address. With a data directory it keeps the log there, otherwise in memory.
//
// # What is promised
//
//  1. What was acknowledged is there after a kill and after a loss of power, at every moment: records, topics, their
//     deletion, and the offsets of groups. Of a compacted topic it is the last record of every key.
//  2. A log that was damaged is not served. [Start] returns a [DamageError] with the file, the place and the remedy, and
//     leaves the file as it is. The checksums of batches, of entries and of JSON files tell, and so does a gap between offsets.
//  3. A disk without room costs nothing but time. Producers and makers of topics get KAFKA_STORAGE_ERROR with the cause, and
//     others are asked to come again. The log goes on as soon as there is room.
//  4. Any other error of the disk stops the broker. It answers no more, and [Broker.Wait] and clients get [ErrStopped] with
//     the cause.
//
// The last batch of a log may be cut short by a kill. It was never acknowledged, and the next start cuts it off with a
// warning.
package broker
