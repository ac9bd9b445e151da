// Package torture makes hostile images, tars and records, and measures what they cost.
//
// [Images], [Tars] and [Records] list generated files and batches; nothing is stored. The tests give every file to a
// process of its own. They compare its peak memory and its processor time with the budget that internal/content/imaging
// promises. They also compare what a tar becomes on the log with its size. `make torture` prints the table, and sends
// images and records through the whole pipeline.
package torture
