package main

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/pairstream/pairstream/internal/model/torch"
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
	{"group", "group build: V2T, V2V, SE (T2V by counting), exact", "3 times faster, aim 8", groupRow},
	{"kmeans", "k-means, K = 1,000, 10 rounds of either side, with its choice of first centroids", "1.5 times faster, aim 3", kmeansRow},
	{"live-ivf", "live search, k = 10, while 2,000 pairs/s are added", "recall ≥ 0.95, p50 and p99 no slower", liveIVFRow},
	{"live-hnsw", "live search, k = 10, while 2,000 pairs/s are added", "recall ≥ 0.95, p50 and p99 no slower", liveHNSWRow},
	{"walk", "GRIT walk, exact greedy order", "4 times less processor time", walkRow},
	{"walk-large", "GRIT walk over a whole queue, exact greedy order", "< 15 s, < 1 GiB", walkLargeRow},
	{"step-tiny", "training step, preset tiny, GRIT-VLP's losses without dropout, forward, backward, AdamW", "1.0, aim 1.5", stepRow("tiny", 96)},
	{"step-small", "training step, preset small, GRIT-VLP's losses without dropout, forward, backward, AdamW", "1.0, aim 1.5", stepRow("small", 16)},
	{"decode-128", "decode and resize a JPEG of 500 × 375 pixels, one core", "2 times faster", decodeRow(128)},
	{"decode-224", "decode and resize a JPEG of 500 × 375 pixels, one core", "2 times faster", decodeRow(224)},
	{"encode", "encoder: decode, resize and embed, preset small", "1.5 times faster", encodeRow(torch.Float32)},
	{"encode-bf16", "the same with PRECISION=bf16, and PyTorch in bfloat16", "1.5 times faster", encodeRow(torch.BFloat16)},
	{loaderRowName, "`ScoredBatches` of clients/python: mini-batches for PyTorch's DataLoader, decoded by PIL", "0.9 of the faster", loaderRow},
	{fetchRowName, "`pairstream fetch`: the images of a list into tars", "1.0", fetchRow},
	{"produce", "`pairstream produce`: scan tars and publish their pairs, by reference", "100,000 pairs/s", produceRow},
	{produceS3RowName, "the same from an S3 server on loopback", "-", produceS3Row},
	{"plumbing", "pairs → embeddings → groups → batches → scored, cores that do nothing", "100,000 pairs/s", plumbingRow},
	{"sampling", "share of sampling in a demo's time", "15 %, aim 12 %; without Con-D GPN-S's 10 %", samplingRow},
	{"memory", "memory of the indexer at its peak", "< 2.5 GiB", memoryRow},
	{"growth-group", "group build at growing sizes", "quadratic", growthRow("group", 12_500)},
	{"growth-kmeans", "k-means at growing sizes", "linear", growthRow("kmeans", 25_000)},
	{"growth-walk", "walk at growing sizes", "quadratic", growthRow("walk", 6_000)},
	{"growth-plumbing", "plumbing at growing sizes", "linear", growthRow("plumbing", 100_000)},
}

// duel is a row in which pairstream and a peer do the same work on the same files. The peer then looks at what
// pairstream found.
type duel struct {
	kind     string
	programs []program // the peers; the best of them takes part
	job      job
	unit     string
	warmUp   int
	// size, against and bound are those of the [Result]; least is the ratio at which the row has met its target.
	size, against, bound string
	least                float64
	// oneHome is the Python of a peer that needs packages of its own; empty: peers run on all homes.
	oneHome string
	// plain says that no BLAS is called, and that processor time says nothing.
	plain bool
	// trial returns the options of a smaller job, by which the best peer is chosen; nil: those of the row.
	trial func(map[string]float64) map[string]float64
	// fair returns the peer's options, given pairstream's answer to the command "check"; nil: the same as pairstream's.
	fair func(ours answer) map[string]float64
	// value returns what is compared; nil: seconds. higher says that more is better.
	value  func(answer) float64
	higher bool
	// check compares the results, given both sides' answers to the command "check".
	check func(ours, peer answer) ([]string, error)
}

// run measures a duel with the best peer. A short run measures it with every one of them, for their results.
func (d duel) run(ctx context.Context, b *bench) (out *Result, err error) {
	ours, err := b.ours(ctx, d.kind, d.job) // before any peer, whose files it may write
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	tried, err := b.contest(ctx, d)
	if err != nil {
		return nil, err
	}
	for i := range tried {
		if !tried[i].Won && !b.short {
			continue
		}
		if out, err = d.meet(ctx, b, ours, &tried[i]); err != nil {
			return nil, err
		}
	}
	if out == nil {
		return nil, errors.New("no peer has won")
	}
	out.Tried = tried
	return out, nil
}

// meet lets pairstream and a peer do the work in turns, and compares what they found.
func (d duel) meet(ctx context.Context, b *bench, ours *side, chosen *Entrant) (out *Result, err error) {
	job := d.job
	if d.fair != nil {
		a, err := ours.ask("check")
		if err != nil {
			return nil, err
		}
		job.Options = d.fair(a)
	}
	peer, err := b.enter(ctx, *chosen, job)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, peer.close()) }()
	chosen.About = peer.about
	if b.short {
		d.warmUp = 0
	}
	answers, err := race(d.warmUp, b.repeats, "run", ours, peer)
	if err != nil {
		return nil, err
	}
	out = d.compare(answers[0], answers[1])
	found, err := ours.ask("check")
	if err != nil {
		return nil, err
	}
	seen, err := peer.ask("check")
	if err != nil {
		return nil, err
	}
	if out.Checks, err = d.check(found, seen); err != nil {
		return nil, fmt.Errorf("comparing the results with those of %s: %w", chosen, err)
	}
	for _, values := range []map[string]float64{medians(answers[0], "ours_"), medians(answers[1], "peer_"), found.Values, seen.Values} {
		maps.Copy(out.Extra, values)
	}
	return out, nil
}

// of returns the figure of an answer.
func (d duel) of(a answer) float64 {
	if d.value == nil {
		return seconds(a)
	}
	return d.value(a)
}

// compare returns the figures of both sides and how many times faster pairstream is.
func (d duel) compare(ours, peer []answer) *Result {
	theirs := figure(peer, d.of)
	out := &Result{Unit: d.unit, Size: d.size, Against: d.against, Bound: d.bound, Ours: figure(ours, d.of), Peer: &theirs, Extra: map[string]float64{}}
	out.Ratio = theirs.Value / out.Ours.Value
	if d.higher {
		out.Ratio = 1 / out.Ratio
	}
	if !d.plain {
		out.CPURatio = theirs.CPU / out.Ours.CPU // of a turn each, which is the same work
	}
	out.Met = d.least > 0 && out.Ratio >= d.least
	return out
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

// growthRow measures a kind of work at 1, 2, 4 and 8 times a size. Each size runs in a process of its own, which shows
// its peak memory.
func growthRow(kind string, unit int) func(context.Context, *bench) (*Result, error) {
	return func(ctx context.Context, b *bench) (*Result, error) {
		some := *b
		some.repeats = min(b.repeats, 3)
		out := &Result{Unit: "s", Against: "none", Bound: "-", Met: true, Extra: map[string]float64{}}
		unit := b.size(unit, unit/25)
		for _, times := range []int{1, 2, 4, 8} {
			n := unit * times
			j := job{Folder: b.folder, Options: map[string]float64{
				"rows": float64(n), "pairs": float64(n), "dim": benchDim, "clusters": float64(min(1000, unit)), "iterations": 20,
			}}
			if kind != "plumbing" {
				if err := writePairs(j, n); err != nil {
					return nil, err
				}
			}
			answers, err := some.alone(ctx, kind, j, 0)
			if err != nil {
				return nil, fmt.Errorf("size %d: %w", n, err)
			}
			f := figure(answers, seconds)
			out.Growth = append(out.Growth, Point{Size: float64(n), Seconds: f.Value, CPU: f.CPU, Peak: f.Peak})
			out.Ours = f
		}
		out.Size = fmt.Sprintf("%s to %s pairs", thousands(unit), thousands(8*unit))
		return out, nil
	}
}
