// Package lint holds no code: its tests guard the rules of this repository that no compiler knows. They read the source
// with go/parser, build nothing and need no network.
//
// The rules:
//
//  1. Imports point one way: services and internal/service, then cores, then the rest of internal, then schemas. Cores
//     (encoder, indexer, grouper, discriminator, trainer) never import one another or a service; schemas imports no
//     other package of this module. No program reaches a package that is for tests.
//  2. Cores are functions of records, options and a seed: they reach no Kafka client, read no environment, ask no clock,
//     draw from no global generator and hold no cgo.
//  3. Only internal/stream imports a Kafka client (internal/kafkatest, the tests' cluster, has one of another make); only
//     internal/torch, internal/faiss and internal/jpeg import "C".
//  4. What needs no tensors builds without cgo. internal/jpeg does too: image/jpeg then does what libjpeg-turbo does faster.
//  5. Every package has a doc comment; files stay below 400 lines and functions within 60, tests aside.
//  6. Where a package keeps its log keys in keys.go, its log calls use them.
package lint
