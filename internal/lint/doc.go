// Package lint holds no code. Its tests guard the rules of this repository that no compiler knows. They read the source
// with go/parser, build nothing and need no network.
//
// The rules:
//
//  1. Imports point one way: services, then adapters, then cores, then internal, then schemas. Cores (encoder, indexer,
//     grouper, discriminator, trainer) never import one another, a service or their own adapter. A core's adapter is the
//     folder named service beside it. Schemas imports no other package of this module. No program reaches
//     internal/testing.
//  2. Cores are functions of records, options and a seed. They reach no Kafka client, read no environment, ask no clock,
//     draw from no global generator and hold no cgo. They name variables of the environment only in the tags of
//     their options, which adapters embed. Adapters may do all of this except cgo. Of the cores, trainer/bootstrap alone
//     reads tars.
//  3. Only internal/log/kafka imports a Kafka client, with four exceptions. internal/log/broker holds the embedded broker.
//     internal/testing/kafkatest, the tests' cluster, has a client of another make. The examples, which outsiders copy, have the
//     same client as internal/log/kafka. The tests of internal/log/stream play brokers and strangers.
//     Only internal/model/torch, internal/neighbors/faiss, internal/neighbors/knn/cpu and internal/content/jpeg import "C".
//  4. What needs no tensors builds without cgo. internal/content/jpeg builds without it as well: image/jpeg then replaces the
//     faster libjpeg-turbo.
//  5. Every package has a doc comment; files stay below 400 lines and functions within 60, tests aside.
//  6. The keys of log lines are constants of the package that logs.
//  7. The product never imports the lab. The lab's packages keep rules 3, 5 and 6 and the rules of documents as well.
//  8. The wings of internal import one another only as wings_test.go lists, without a circle. So do the three rooms of the
//     log: broker, kafka, stream.
//  9. Package interrupt alone asks whether an error is context.Canceled. A deferred function goes through no named result
//     that a return behind it sets to nil.
//
// 10. Package ownedfolder alone removes folders with what is in them.
// 11. The glossary has 60 words at most. No type and no file has a name that words_test.go knows a better one for.
// 12. Every rule names folders and clients that are there, and fails when it has looked at nothing.
package lint
