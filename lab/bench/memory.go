package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/schemas"
)

// memoryRow closes a group of a million pairs. All memory is taken as in production. The search for neighbours would
// take a quarter of an hour on two cores. So the worker stops it after a minute and makes its result up: the search
// takes all its memory at its start.
func memoryRow(ctx context.Context, b *bench) (*Result, error) {
	n := b.size(1_000_000, 5_000)
	one := *b
	one.repeats = 1
	options := map[string]float64{"rows": float64(n), "seconds": float64(b.size(60, 1))}
	answers, err := one.alone(ctx, "memory", job{Options: options}, 0)
	if err != nil {
		return nil, err
	}
	a := answers[0]
	out := &Result{
		Size: fmt.Sprintf("%s × %d group", thousands(n), benchDim), Against: "none", Unit: "GiB",
		Ours:   figure(answers, func(a answer) float64 { return a.PeakBytes / (1 << 30) }),
		Extra:  map[string]float64{},
		Bound:  "the vectors, 1,024 bytes a pair, and the candidate lists of the search for neighbours",
		Checks: []string{"the group closes, with every pair in a chunk"},
		Notes:  []string{fmt.Sprintf("the search for neighbours is broken off after %.0f s, its memory is all there by then", options["seconds"])},
	}
	for name, bytes := range a.Values {
		out.Extra[name+"_per_pair"] = bytes / float64(n)
	}
	out.Met = out.Ours.Value < 2.5
	return out, nil
}

// memoryWorker adds pairs to a group and closes it.
type memoryWorker struct {
	job   job
	group *indexer.Group
}

func newMemoryWorker(_ context.Context, j job) (worker, error) {
	w := &memoryWorker{job: j}
	return worker{"run": w.run, "check": w.check}, nil
}

func (w *memoryWorker) check(context.Context, *answer) error {
	members := 0
	for _, c := range w.group.Chunks {
		members += len(c.Cluster)
	}
	if members != w.job.option("rows") {
		return fmt.Errorf("the chunks have %d members", members)
	}
	return nil
}

func (w *memoryWorker) run(ctx context.Context, a *answer) error {
	o := indexer.DefaultOptions()
	o.GroupSize, o.Threads = w.job.option("rows"), w.job.Threads
	engine := hurried{limit: time.Duration(w.job.option("seconds")) * time.Second}
	builder, err := indexer.NewBuilder(schemas.GroupID{}, o, engine, noNouns{}, nil)
	if err != nil {
		return err
	}
	before, err := memory("VmRSS")
	if err != nil {
		return err
	}
	c := newCrawl(benchDim)
	for i := range o.GroupSize {
		e := &schemas.Embedding{Model: "m", Caption: "a dog runs along the beach"}
		v, t := c.Next()
		e.V, e.T = schemas.NewFloat16s(v), schemas.NewFloat16s(t)
		binary.LittleEndian.PutUint64(e.ImageID[:], uint64(i)+1)
		e.ID = schemas.NewPairID(e.ImageID, e.Caption)
		if _, err := builder.Add(e, int64(i)); err != nil {
			return err
		}
	}
	added, err := memory("VmRSS")
	if err != nil {
		return err
	}
	if w.group, err = builder.Close(ctx, indexer.ByCount); err != nil {
		return err
	}
	peak, err := memory("VmHWM")
	a.Values["added"], a.Values["peak"] = added-before, peak-before
	return err
}

// hurried is the engine with a time limit for its search for neighbours.
type hurried struct {
	cpu.Engine
	limit time.Duration
}

// Neighbors gives up in time, and then names the next pairs as everybody's neighbours.
func (e hurried) Neighbors(ctx context.Context, v, t knn.Matrix, p knn.Params) (knn.Result, error) {
	hurry, cancel := context.WithTimeout(ctx, e.limit)
	defer cancel()
	found, err := e.Engine.Neighbors(hurry, v, t, p)
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return found, err
	}
	next := func(k int) []int32 {
		out := make([]int32, v.Rows*k)
		for i := range out {
			out[i] = int32((i/k + 1 + i%k) % v.Rows)
		}
		return out
	}
	return knn.Result{V2T: next(p.K), V2V: next(p.K1), SE: next(p.K1)}, nil
}
