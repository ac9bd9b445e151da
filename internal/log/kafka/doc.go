// Package kafka talks to the brokers. It connects and authenticates, creates and checks topics, fetches and decodes
// batches, delivers batches, takes part in consumer groups, and retries transient failures. Package stream, above it,
// gives the records their meaning: seqs, marks, lanes that resume.
//
// A program opens a [Client] with [Connect]. The client library is kafka-go. None of its types is in this package's
// API, so the packages above name no library.
//
// # Requests
//
// A request is repeated without limit, with backoff, unless the answer says that this is useless ([Client.Retry]).
// After five failures in a row all connections are replaced. A hanging connection is closed after
// Config.RequestTimeout. [Client.Deliver] repeats a batch. When an answer is lost it asks its caller whether the batch
// is in the log.
//
// # Foreign and damaged batches
//
// Any client with the right to write to a topic can send any bytes as a batch. A batch is decoded within bounds:
// decompression, headers, and the records of one fetch. An unreadable part becomes one record that says so
// ([Record.Unreadable]) and names its offsets. Records of aborted transactions are dropped.
//
// # Code around kafka-go
//
// docs/decisions/kafka-go.md lists the work of these files beside the library, with the reason and the lines of each.
package kafka
