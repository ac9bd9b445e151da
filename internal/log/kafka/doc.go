// Package kafka speaks to the brokers. It connects and authenticates, makes and checks topics, fetches and decodes
// batches, delivers batches, takes part in consumer groups, and repeats what fails in passing. Package stream, which
// stands above it, gives the records their meaning: seqs, marks, lanes that are resumed.
//
// A program opens a [Client] with [Connect]. The client library is kafka-go. No type of it is in this package's API, so
// the packages above name no library.
//
// # Requests
//
// A request is repeated for ever, with backoff, unless the answer says that it is no use ([Client.Retry]). After five
// failures in a row the connections are made anew. A connection that hangs is given up after Config.RequestTimeout.
// [Client.Deliver] repeats a batch. When an answer is lost it asks its caller whether the batch is in the log.
//
// # What others write
//
// Anyone who may write to a topic decides what lies in a batch. A batch is decoded within bounds: decompression,
// headers, and the records of one fetch. What cannot be read becomes one record that says so ([Record.Unreadable]) and
// names its offsets. Records of aborted transactions were never written.
//
// # What is written around kafka-go
//
// docs/decisions/kafka-go.md lists what these files do beside the library, with the reason and the lines of each.
package kafka
