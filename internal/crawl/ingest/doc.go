// Package ingest is the HTTP front door: it takes pairs by POST /v1/pairs and publishes them, for producers that speak
// neither Kafka nor tars.
//
// A body of JSON or a form holds one pair, and NDJSON one a line. Images travel in the body or are downloaded, and go
// to the topic "pairs" as inline bytes. The answer has the ids of the pairs, or a reason for each that was refused.
//
// Invariants:
//
//  1. A pair whose id is in an answer is on the log: all in-sync replicas have acknowledged it. Of a pair that was acknowledged
//     earlier, the log says for each request that it still has it.
//  2. A pair's id is a hash of its image and caption. A request that is sent again gives the same ids, and stages count a
//     pair that is on the log twice once.
//  3. One bad pair holds up no other: what is good of a request is published.
//  4. The door keeps no state that a kill could lose. What has no answer may be on the log or not, and may be sent again.
//  5. An answer lists every pair that is on the log, also where the rest of the request has failed. What may succeed without a
//     change has the status 429 or 503, and nothing else has.
//  6. Every request has bounds of time, bytes and pairs, and all requests together one of memory.
//
// schemas/openapi.yaml describes the requests and the answers.
package ingest
