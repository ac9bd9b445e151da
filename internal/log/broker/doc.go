// Package broker runs a Kafka-protocol broker in the process: the embedded log of one machine. It is kfake, of franz-go,
// with three layers around it. A guard passes on only what is the Kafka protocol. A second one holds back every answer until
// what it tells of is on the disk. A third lets clients in the same process connect through memory.
//
// [Start] starts a [Broker] on a loopback address. With a data directory it keeps the log there, otherwise in memory.
package broker
