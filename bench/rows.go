package main

import (
	"context"
	"errors"
	"fmt"
)

// row is one line of the table.
type row struct {
	name   string
	what   string
	target string
	// measure runs both sides and compares their results.
	measure func(ctx context.Context, b *bench) (*Result, error)
}

// rows lists the rows in the order of the table.
var rows = []row{
	{"group", "group build: V2T, V2V, SE (T2V by counting), exact", "3 times faster, aim 6", groupRow},
	{"kmeans", "k-means, K = 1,000, 20 iterations, with its choice of first centroids", "1.5 times faster, aim 3", kmeansRow},
	{"live-ivf", "live search, k = 10, while 2,000 pairs/s are added", "recall ≥ 0.95, p99 < 10 ms", liveIVFRow},
	{"live-hnsw", "live search, k = 10, while 2,000 pairs/s are added", "recall ≥ 0.95, p99 < 10 ms", liveHNSWRow},
	{"walk", "GRIT walk, exact greedy order", "6 times faster", walkRow},
	{"walk-large", "GRIT walk over a whole queue, exact greedy order", "< 15 s, < 1 GiB", walkLargeRow},
	{"step-tiny", "training step, preset tiny, GRIT-VLP's losses without dropout, forward, backward, AdamW", "1.0, aim 1.3", stepRow("tiny", 96)},
	{"step-small", "training step, preset small, GRIT-VLP's losses without dropout, forward, backward, AdamW", "1.0, aim 1.3", stepRow("small", 16)},
	{"decode-128", "decode and resize a JPEG of 500 × 375 pixels, one core", "3 times faster", decodeRow(128)},
	{"decode-224", "decode and resize a JPEG of 500 × 375 pixels, one core", "3 times faster", decodeRow(224)},
	{"encode", "encoder: decode, resize and embed, preset small", "-", encodeRow},
	{loaderRowName, "`ScoredBatches` of clients/python: mini-batches for PyTorch's DataLoader, decoded by PIL", "0.9 of the faster", loaderRow},
	{"plumbing", "pairs → embeddings → groups → batches → scored, cores that do nothing", "50,000 pairs/s", plumbingRow},
	{"sampling", "share of sampling in a demo's time", "10 % of GPN-S, without Con-D", samplingRow},
	{"memory", "memory of the indexer at its peak", "< 2.5 GiB", memoryRow},
	{"growth-group", "group build at growing sizes", "quadratic", growthRow("group", 12_500)},
	{"growth-kmeans", "k-means at growing sizes", "linear", growthRow("kmeans", 25_000)},
	{"growth-walk", "walk at growing sizes", "quadratic", growthRow("walk", 6_000)},
	{"growth-plumbing", "plumbing at growing sizes", "linear", growthRow("plumbing", 100_000)},
}

// duel is a row in which pairstream and a peer do the same work on the same files. The peer then looks at what pairstream
// found.
type duel struct {
	kind, script string
	job          job
	unit         string
	warmUp       int
	// value returns what is compared; nil: seconds. higher says that more is better.
	value  func(answer) float64
	higher bool
	// check compares the results, given both sides' answers to the command "check".
	check func(ours, peer answer) ([]string, error)
}

// run measures a duel.
func (d duel) run(ctx context.Context, b *bench) (out *Result, err error) {
	ours, err := b.ours(ctx, d.kind, d.job)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	peer, err := b.peer(ctx, d.script, d.job)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, peer.close()) }()
	if b.short {
		d.warmUp = 0
	}
	answers, err := race(d.warmUp, b.repeats, "run", ours, peer)
	if err != nil {
		return nil, err
	}
	value := d.value
	if value == nil {
		value = seconds
	}
	theirs := figure(answers[1], value)
	out = &Result{Unit: d.unit, Ours: figure(answers[0], value), Peer: &theirs, Extra: map[string]float64{}}
	out.Ratio = theirs.Value / out.Ours.Value
	if d.higher {
		out.Ratio = 1 / out.Ratio
	}
	out.CPURatio = theirs.CPU / out.Ours.CPU // of a turn each, which is the same work
	found, err := ours.ask("check")
	if err != nil {
		return nil, err
	}
	seen, err := peer.ask("check")
	if err != nil {
		return nil, err
	}
	if out.Checks, err = d.check(found, seen); err != nil {
		return nil, fmt.Errorf("comparing the results: %w", err)
	}
	for _, values := range []map[string]float64{medians(answers[0], "ours_"), medians(answers[1], "peer_"), found.Values, seen.Values} {
		for name, v := range values {
			out.Extra[name] = v
		}
	}
	return out, nil
}

// medians returns the median of every value in the answers.
func medians(answers []answer, prefix string) map[string]float64 {
	all := map[string][]float64{}
	for _, a := range answers {
		for name, v := range a.Values {
			all[name] = append(all[name], v)
		}
	}
	out := map[string]float64{}
	for name, values := range all {
		out[prefix+name] = median(values)
	}
	return out
}

// size returns the full size, or the short one in a short run.
func (b *bench) size(full, short int) int {
	if b.short {
		return short
	}
	return full
}
