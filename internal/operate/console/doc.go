// Package console serves web pages that show a run: how pairs flow, what training does, groups, pairs, mini-batches,
// connections, dead letters and replays. It reads the log and the bucket, and writes nothing but judgements.
//
// Invariants:
//
//  1. Nothing depends on the console. Its index (internal/operate/console/index) may be thrown away.
//  2. An image that a page asks for is one that a record names, by the id of a pair. It is read below the bucket's roots,
//     decoded within the bounds of internal/content/imaging and sent as a JPEG that the console has encoded.
//  3. A text of the log is text: html/template escapes it, and it is isolated from the direction of the text around it.
//  4. Pages run no scripts and load nothing but the console's own files (Content-Security-Policy).
//  5. Only a page of the console itself can make a judgement.
//  6. Each request has a time limit, and what it may read, keep or send is bounded.
package console
