// Package ingest is the HTTP front door: it takes pairs by POST /v1/pairs and publishes them, for producers that speak
// neither Kafka nor tars.
//
// A body of JSON or a form holds one pair, and NDJSON one a line. Images come in the body or are downloaded, and go to
// the topic "pairs" as inline bytes. The answer has the ids of the pairs, or a reason for each refused pair.
//
// Invariants:
//
//  1. A pair whose id is in an answer is on the log: all in-sync replicas have acknowledged it. For a pair
//     acknowledged earlier, every request checks that the log still has it.
//  2. A pair's id is a hash of its image and caption. A repeated request gives the same ids, and stages count a pair
//     that is on the log twice once.
//  3. A bad pair does not hold up the others: all good pairs of a request are published.
//  4. The door keeps no state that a kill could lose. Pairs without an answer may be on the log or not, and may be
//     sent again.
//  5. An answer lists every pair that is on the log, even if the rest of the request has failed. A request that may
//     succeed unchanged gets the status 429 or 503, and no other request does.
//  6. Every request is bounded in time, bytes and pairs, and all requests together in memory.
//  6. Every request has bounds of time, bytes and pairs, and all requests together one of memory.
//
// schemas/openapi.yaml describes the requests and the answers.
package ingest
