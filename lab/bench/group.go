package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
)

// groupParams returns GPN-S's parameters.
func groupParams(threads int) knn.Params { return knn.Params{K: 10, K1: 5, K2: 500, Threads: threads} }

func groupRow(ctx context.Context, b *bench) (*Result, error) {
	n := b.size(100_000, 3_000)
	j := job{Folder: b.folder, Options: map[string]float64{"rows": float64(n), "dim": benchDim, "parts": float64(b.size(10, 1))}}
	if err := writePairs(j, n); err != nil {
		return nil, err
	}
	out, err := duel{
		size: fmt.Sprintf("%s × %d", thousands(n), benchDim), against: "FAISS IndexFlatIP, searches k = 10, 6, 500",
		bound: "products of rows rounded to 16-bit integers; few candidates need an exact score", least: 3,
		kind: "group", programs: []program{{script: "group.py"}}, job: j, unit: "s",
		check: func(_, peer answer) ([]string, error) {
			for _, name := range []string{"v2t_wrong", "v2v_wrong", "se_wrong"} {
				if wrong := peer.Values[name]; wrong != 0 {
					return nil, fmt.Errorf("%s: %.0f entries differ by more than a tie", name, wrong)
				}
			}
			return []string{fmt.Sprintf("the same sets of %.0f pairs, up to ties within 1e-6 (%.0f entries)", peer.Values["rows"], peer.Values["ties"])}, nil
		},
	}.run(ctx, b)
	if err != nil {
		return nil, err
	}
	out.Notes = []string{"FAISS searches for another tenth of the pairs in each turn, which counts ten times: its time is linear in the queries"}
	return out, nil
}

// groupWorker finds the neighbours of a group.
type groupWorker struct {
	job    job
	engine knn.Engine
	v, t   knn.Matrix
	found  knn.Result
}

func newGroupWorker(_ context.Context, j job) (worker, error) {
	w := &groupWorker{job: j}
	var err error
	if w.engine, err = j.engine(); err != nil {
		return nil, err
	}
	if w.v, err = readHalves(j, imagesFile); err != nil {
		return nil, err
	}
	w.t, err = readHalves(j, textsFile)
	return worker{"run": w.run, "sample": w.sample, "check": w.check}, err
}

func (w *groupWorker) run(ctx context.Context, _ *answer) (err error) {
	w.found, err = w.engine.Neighbors(ctx, w.v, w.t, groupParams(w.job.Threads))
	return err
}

func (w *groupWorker) check(context.Context, *answer) error {
	return errors.Join(writeInts(w.job.path("v2t.i32"), w.found.V2T), writeInts(w.job.path("v2v.i32"), w.found.V2V), writeInts(w.job.path("se.i32"), w.found.SE))
}

// sample compares the nearest texts of some images with what a search through all texts finds.
func (w *groupWorker) sample(context.Context, *answer) error {
	k := groupParams(0).K
	for i := range w.job.option("sample") {
		at := i * (w.v.Rows / w.job.option("sample"))
		hits, err := cpu.Engine{}.Scan(w.t, 0, w.v.Row(at, nil), k)
		if err != nil {
			return err
		}
		for place, h := range hits {
			if got := w.found.V2T[at*k+place]; int64(got) != h.Row {
				return fmt.Errorf("text %d of image %d is that of pair %d, want %d", place, at, got, h.Row)
			}
		}
	}
	return nil
}

// kmeansRounds is the number of rounds of either side: so few that none of them changes nothing, which would end
// pairstream's early.
const kmeansRounds = 10

func kmeansRow(ctx context.Context, b *bench) (*Result, error) {
	n, clusters := b.size(100_000, 4_000), b.size(1000, 100)
	j := job{Folder: b.folder, Options: map[string]float64{
		"rows": float64(n), "dim": benchDim, "clusters": float64(clusters), "iterations": kmeansRounds,
	}}
	if err := writePairs(j, n); err != nil {
		return nil, err
	}
	return duel{
		size:    fmt.Sprintf("%s × %d, K = %s", thousands(n), benchDim, thousands(clusters)),
		against: "faiss.Kmeans, all rows", bound: "products of rows and centroids", least: 1.5,
		kind: "kmeans", programs: []program{{script: "kmeans.py"}}, job: j, unit: "s", warmUp: 1,
		check: func(ours, peer answer) ([]string, error) {
			if rounds := ours.Values["rounds"]; rounds != kmeansRounds && !b.short { // a side that ends early does less work
				return nil, fmt.Errorf("pairstream made %.0f rounds, want %d of either side", rounds, kmeansRounds)
			}
			share := ours.Values["inertia"]/peer.Values["peer_inertia"] - 1
			if share > 0.005 && !b.short { // the result for few rows in few clusters depends on where they begin
				return nil, fmt.Errorf("inertia is %.2f %% above the peer's", 100*share)
			}
			return []string{fmt.Sprintf("inertia %+.2f %% of the peer's (at most +0.5 %% is allowed)", 100*share)}, nil
		},
	}.run(ctx, b)
}

// kmeansWorker clusters the images of a group.
type kmeansWorker struct {
	job    job
	engine knn.Engine
	x      knn.Matrix
	found  knn.Clusters
}

func newKMeansWorker(_ context.Context, j job) (worker, error) {
	engine, err := j.engine()
	if err != nil {
		return nil, err
	}
	x, err := readHalves(j, imagesFile)
	w := &kmeansWorker{job: j, engine: engine, x: x}
	return worker{"run": w.run, "sample": w.result, "check": w.result}, err
}

func (w *kmeansWorker) run(ctx context.Context, _ *answer) error {
	seeds, err := knn.Seeds(ctx, cpu.Engine{}, w.x, w.job.option("clusters"), rng.New(1, "bench.kmeans"))
	if err != nil {
		return err
	}
	w.found, err = w.engine.KMeans(ctx, w.x, knn.KMeansParams{Init: seeds, Iterations: w.job.option("iterations"), Threads: w.job.Threads})
	return err
}

func (w *kmeansWorker) result(_ context.Context, a *answer) error {
	a.Values["inertia"], a.Values["rounds"] = w.found.Inertia, float64(w.found.Rounds)
	return nil
}
