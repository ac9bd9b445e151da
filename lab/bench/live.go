package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/schemas"
)

const (
	addsPerSecond = 2000
	liveK         = 10
	liveQueries   = 200 // whose exact neighbours are known
	liveSeconds   = 3   // that a turn takes at least, so that additions have their part in it

	// A group of this many pairs tells which build of FAISS is faster; building a larger index takes minutes.
	liveTrialRows = 20_000
	// The recall that FAISS has to reach as well is at most this: its graph may have pairs that no search finds.
	mostRecall = 0.99
)

func liveIVFRow(ctx context.Context, b *bench) (*Result, error) {
	return liveRow(ctx, b, b.size(1_000_000, 20_000), b.size(1000, 50), "FAISS IVF at pairstream's recall, of vectors or of 8-bit codes ranked anew: the faster; adds and searches under one lock",
		program{script: "live_ivf.py"}, program{script: "live_ivf.py", variant: "sq8"})
}

// liveHNSWRow has fewer pairs. With a million pairs, building the peer's graph takes most of an hour,
// and additions to it leave little time for searches.
func liveHNSWRow(ctx context.Context, b *bench) (*Result, error) {
	return liveRow(ctx, b, b.size(100_000, 4_000), b.size(1000, 20), "FAISS HNSW (M = 32) at pairstream's recall, adds and searches under one lock", program{script: "live_hnsw.py"})
}

func liveRow(ctx context.Context, b *bench, n, searches int, against string, peers ...program) (*Result, error) {
	spare := addsPerSecond * 10 * (b.repeats + 1) // more pairs than can be added while searches go on
	if b.short {
		spare = addsPerSecond
	}
	j := job{Folder: b.folder, Options: map[string]float64{
		"rows": float64(n), "spare": float64(spare), "dim": benchDim, "k": liveK, "queries": liveQueries,
		"searches": float64(searches), "seconds": float64(b.size(liveSeconds, 0)), "adds_per_second": addsPerSecond, "recall": 0.95,
	}}
	if err := writePairs(j, n+spare); err != nil {
		return nil, err
	}
	var checks []string
	out, err := duel{
		kind: "live", programs: peers, job: j, unit: "ms p99", warmUp: 1, plain: true,
		trial: func(o map[string]float64) map[string]float64 {
			o = maps.Clone(o)
			o["rows"] = float64(min(n, liveTrialRows))
			return o
		},
		fair: func(ours answer) map[string]float64 {
			o := maps.Clone(j.Options)
			o["recall"] = min(ours.Values["recall"], mostRecall)
			return o
		},
		value: func(a answer) float64 { return a.Values["p99_ms"] },
		check: func(ours, peer answer) ([]string, error) {
			if r := ours.Values["recall"]; !(r >= 0.95) {
				return nil, fmt.Errorf("recall@10 is %.3f", r)
			}
			checks = append(checks, fmt.Sprintf("recall@10 %.3f, the peer's %.3f", ours.Values["recall"], peer.Values["peer_recall"]))
			return checks, nil
		},
	}.run(ctx, b)
	if err != nil {
		return nil, err
	}
	p50 := out.Extra["peer_p50_ms"] / out.Extra["ours_p50_ms"]
	out.Extra["p50_ratio"] = p50
	out.Size, out.Against = fmt.Sprintf("%s × %d", thousands(n), benchDim), against
	out.Met, out.Bound = out.Extra["recall"] >= 0.95 && out.Ratio >= 1 && p50 >= 1, "reading the codes of centroids and of the lists that are visited"
	if scan := out.Extra["scan_ms"]; scan > 0 {
		of := fmt.Sprintf("p50 of a scan of as many 8-bit codes, %.0f, in order", out.Extra["codes"])
		out.Limit = &Limit{scan, of, scan / out.Extra["ours_p50_ms"]}
	}
	out.Notes = []string{fmt.Sprintf("additions %.0f/s (FAISS %.0f/s), p99 of one %.2f ms; p50 of searches %.3f ms (FAISS %.3f ms); recall of FAISS %.3f",
		out.Extra["ours_adds_per_second"], out.Extra["peer_adds_per_second"], out.Extra["ours_add_p99_ms"],
		out.Extra["ours_p50_ms"], out.Extra["peer_p50_ms"], out.Extra["peer_recall"])}
	return out, nil
}

// liveWorker searches a group while pairs are added to it.
type liveWorker struct {
	job     job
	v, t    []byte
	stride  int
	builder *indexer.Builder
	live    *indexer.Live
	added   int
	queries [][]float32
	stop    context.CancelFunc
	running sync.WaitGroup
	failed  error
}

// noNouns finds no nouns, because captions play no part.
type noNouns struct{}

// Nouns implements [indexer.NounFinder].
func (noNouns) Nouns(string) []string { return nil }

func newLiveWorker(ctx context.Context, j job) (_ worker, err error) {
	w := &liveWorker{job: j, stride: 2 * benchDim}
	if w.v, w.t, err = readPairs(j); err != nil {
		return nil, err
	}
	if w.live, err = indexer.NewLive(indexer.DefaultLiveOptions(), cpu.Engine{}); err != nil {
		return nil, err
	}
	o := indexer.DefaultOptions()
	if w.builder, err = indexer.NewBuilder(schemas.GroupID{}, o, cpu.Engine{}, noNouns{}, w.live); err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(ctx)
	w.stop = stop
	w.running.Go(func() { w.failed = w.live.Run(running) })
	n := j.option("rows")
	for range n {
		if err := w.add(); err != nil {
			return nil, err
		}
	}
	for i := range j.option("queries") {
		row := i * (n / j.option("queries"))
		w.queries = append(w.queries, schemas.Float16s(w.v[row*w.stride:(row+1)*w.stride]).Floats())
	}
	return worker{"run": w.searches, "check": w.recall, atEnd: ending(w.close)}, w.settled(ctx)
}

// settled waits until the lists hold everything that they will hold.
func (w *liveWorker) settled(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for w.live.Status()[0].InLists < w.added-indexer.DefaultLiveOptions().TailRows {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

// close frees everything.
func (w *liveWorker) close() error {
	w.stop()
	w.running.Wait()
	return errors.Join(w.failed, w.builder.Free(), w.live.Close())
}

// add adds the next pair of the files.
func (w *liveWorker) add() error {
	at := w.added * w.stride
	e := &schemas.Embedding{V: w.v[at : at+w.stride], T: w.t[at : at+w.stride], Model: "m", Caption: "a dog"}
	binary.LittleEndian.PutUint64(e.ImageID[:], uint64(w.added)+1)
	e.ID = schemas.NewPairID(e.ImageID, e.Caption)
	_, err := w.builder.Add(e, int64(w.added))
	w.added++
	return err
}

// searches measures searches, one after the other, with additions beside them.
func (w *liveWorker) searches(ctx context.Context, a *answer) error {
	adding, stop := context.WithCancel(ctx)
	var adds []time.Duration
	var failed error
	var group sync.WaitGroup
	group.Go(func() { adds, failed = w.steadily(adding) })
	var times []time.Duration
	started := time.Now()
	least := time.Duration(w.job.option("seconds")) * time.Second
	for i := 0; i < w.job.option("searches") || time.Since(started) < least; i++ {
		start := time.Now()
		query := indexer.Query{K: w.job.option("k"), Modality: indexer.Text}
		if _, err := w.live.Search(w.queries[i%len(w.queries)], query); err != nil {
			failed = errors.Join(failed, err)
			break
		}
		times = append(times, time.Since(start))
	}
	took := time.Since(started).Seconds()
	stop()
	group.Wait()
	a.Values["p50_ms"], a.Values["p99_ms"] = percentile(times, 50), percentile(times, 99)
	a.Values["add_p99_ms"], a.Values["adds_per_second"] = percentile(adds, 99), float64(len(adds))/took
	return failed
}

// steadily adds pairs at the row's rate until ctx ends.
func (w *liveWorker) steadily(ctx context.Context) (times []time.Duration, err error) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return times, nil
		case <-tick.C:
		}
		for range w.job.option("adds_per_second") / 100 {
			if w.added == len(w.v)/w.stride {
				return times, nil
			}
			start := time.Now()
			if err := w.add(); err != nil {
				return times, err
			}
			times = append(times, time.Since(start))
		}
	}
}

// percentile returns a percentile of times in milliseconds: the least of them that so many are no longer than.
func percentile(times []time.Duration, p int) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[max(0, (len(times)*p+99)/100-1)].Seconds() * 1000
}

// recall compares the results with searches that look at every pair.
func (w *liveWorker) recall(_ context.Context, a *answer) error {
	found, wanted := 0, 0
	for _, q := range w.queries {
		query := indexer.Query{K: w.job.option("k"), Modality: indexer.Text}
		got, err := w.live.Search(q, query)
		if err != nil {
			return err
		}
		query.Exact = true
		want, err := w.live.Search(q, query)
		if err != nil {
			return err
		}
		for _, n := range want.Neighbors {
			wanted++
			if slices.ContainsFunc(got.Neighbors, func(m indexer.Neighbor) bool { return m.Pair == n.Pair }) {
				found++
			}
		}
	}
	a.Values["recall"] = float64(found) / float64(wanted)
	status := w.live.Status()[0]
	if status.Lists == 0 {
		return nil
	}
	rows := max(1, status.Probes*status.InLists/status.Lists)
	scan, err := scanned(status.Lists, rows)
	a.Values["codes"], a.Values["scan_ms"] = float64(status.Lists+rows), scan.Seconds()*1000
	return err
}
