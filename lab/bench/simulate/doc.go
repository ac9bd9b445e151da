// Simulate checks figures of docs/scaling.md by playing a cluster on one machine: a crawl of 40 lanes, one group in
// each.
//
//   - idle: how long a trainer of many GPUs waits where all lanes end an epoch. It drives the real cores of the groupers
//     against a clock that only the simulation moves.
//   - kills: what a kill -9 of the grouper costs in early and late epochs, and whether it goes on when everything is deleted
//     that may be. It runs the real log, the real grouper and its loop. The walks, the discriminator and the trainer sleep.
//     Time is scaled: a walk sleeps for the share of an epoch that it takes of a real one. Requests to the log are not
//     scaled, so they weigh more here.
//   - reads: how long a trainer waits for images whose latencies are drawn. No clock is involved.
//   - bytes: what every topic holds of a pair, in the real log.
//   - plan: storage, processor time, lag and throughput of a core in small fleets, predicted and measured. It runs the real log and
//     groupers. The trainer sleeps.
//   - ranks: what an exchange of gradients takes. Ranks are processes in network namespaces, with lines of limited rate. It
//     needs root and iproute2.
//   - overlap: the same, with a gradient that leaves behind a backward pass, or run by run beside it. Ranks sleep in place of
//     the pass.
//
// Usage:
//
//	bin/lab/simulate                 # all; results in lab/bench/simulate/results.json
//	bin/lab/simulate --only idle     # one of them
//	bin/lab/simulate --write docs/scaling.md
package main
