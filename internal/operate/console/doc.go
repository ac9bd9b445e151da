// Package console serves web pages that show a run: progress, training, groups, pairs, mini-batches, connections, dead
// letters and replays. It reads the log and the bucket, and writes judgements only.
//
// Invariants:
//
//  1. Nothing depends on the console. Its index (internal/operate/console/index) may be deleted.
//  2. A page can only request the image of a pair, by the pair's id. The console reads it below the bucket's roots, decodes
//     it within the limits of internal/content/imaging and sends a JPEG that it has encoded.
//  3. Texts of the log are shown as text: html/template escapes them, and they do not change the direction of other text.
//  4. Pages load only the console's own files and scripts (Content-Security-Policy).
//  5. Only a page of the console itself can submit a judgement.
//  6. Each request has a time limit, and limits on reads, memory and output.
package console
