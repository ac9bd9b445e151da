// Bench measures pairstream beside what people use today, in one run on one machine.
//
// A row of its table is a piece of work done twice: by pairstream's own code and by a peer. A peer is a program of ours
// in peers/ that uses the libraries that a user would pick instead. Both sides are processes of their own, pinned to
// the same processors and told to use the same number of threads. They get the same inputs as files and answer over a
// pipe. The sides take turns, and a figure is the median of at least five turns (a row that takes fewer says so). The
// figure to read is the ratio of the two. It is free of most of what differs from machine to machine and from hour to
// hour.
//
// Every row also compares what the two sides computed, and a row whose results differ fails. It compares the sets of
// neighbours up to ties, the order of a walk, the inertia of clusters, or the losses of training steps.
//
// Behind many rows the program measures a limit of the machine, and says which share of it the row has reached
// (limit.go).
//
// Results go to results.json, row by row, so that a run can be made in parts. With --write the program puts the table
// into a document between its marks. With --short the sizes are small, everything is computed and compared once, and
// the times prove nothing.
//
// With --device the rows are what GPUs are for, up to groups of five million pairs. No peer runs beside them. Their
// limit, large products on the same device, is measured in the same run. Results go to gpu.json and gpu.md.
package main
