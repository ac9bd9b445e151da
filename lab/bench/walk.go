package main

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

func walkRow(ctx context.Context, b *bench) (*Result, error) {
	n := b.size(4_800, 600)
	j := job{Folder: b.folder, Options: map[string]float64{"dim": benchDim}}
	if err := writePairs(j, n); err != nil {
		return nil, err
	}
	out, err := duel{
		kind: "walk", programs: []program{{script: "walk.py"}, {script: "walk_numpy.py"}}, job: j, unit: "s", warmUp: 1,
		check: func(_, peer answer) ([]string, error) {
			if wrong := peer.Values["not_greedy"]; wrong != 0 {
				return nil, fmt.Errorf("%.0f of %d steps pass over a better pair", wrong, n)
			}
			if agree := peer.Values["same_steps"]; agree < float64(n) {
				return []string{fmt.Sprintf("greedy at every step within 1e-6; the peer's order is the same for %.0f steps, to a tie", agree)}, nil
			}
			return []string{"the peer's order, pair by pair; greedy at every step"}, nil
		},
	}.run(ctx, b)
	if err != nil {
		return nil, err
	}
	out.Size, out.Against = fmt.Sprintf("M = %s, d = %d", thousands(n), benchDim), "PyTorch with full softmax matrices, or numpy with a mask: the faster"
	out.Met, out.Bound = out.CPURatio >= 4, "reading the codes of 8 bits of all that is left for each pair, by one thread"
	return out, nil
}

func walkLargeRow(ctx context.Context, b *bench) (*Result, error) {
	n := b.size(48_000, 3_000)
	j := job{Folder: b.folder, Options: map[string]float64{"dim": benchDim}}
	if err := writePairs(j, n); err != nil {
		return nil, err
	}
	answers, err := b.alone(ctx, "walk", j, 0)
	if err != nil {
		return nil, err
	}
	out := &Result{
		Size: fmt.Sprintf("M = %s, d = %d", thousands(n), benchDim), Against: "none: its matrices would take 18.4 GB",
		Unit: "s", Ours: figure(answers, seconds), Bound: "one product of images and texts in 16-bit integers, and scans of what is left when lists run out",
		Checks: []string{"every pair once"},
	}
	out.Met = out.Ours.Value < 15 && out.Ours.Peak < 1<<30
	return out, nil
}

// alone measures work that has no peer.
func (b *bench) alone(ctx context.Context, kind string, j job, warmUp int) (answers []answer, err error) {
	s, err := b.ours(ctx, kind, j)
	if err != nil {
		return nil, err
	}
	defer closing(s, &err)
	all, err := race(warmUp, b.repeats, "run", s)
	if err != nil {
		return nil, err
	}
	_, err = s.ask("check")
	return all[0], err
}

// walkWorker walks over all pairs.
type walkWorker struct {
	job   job
	v, t  *dotproduct.Matrix
	order []int32
}

func newWalkWorker(_ context.Context, j job) (worker, error) {
	w := &walkWorker{job: j}
	var err error
	if w.v, err = readFloats(j, imagesFile); err != nil {
		return nil, err
	}
	w.t, err = readFloats(j, textsFile)
	return worker{"run": w.run, "check": w.check}, err
}

func (w *walkWorker) run(ctx context.Context, _ *answer) (err error) {
	w.order, err = grouper.Walk(ctx, w.v, w.t, 0, grouper.WalkRule{Workers: w.job.Threads})
	return err
}

func (w *walkWorker) check(context.Context, *answer) error {
	seen := make([]bool, w.v.Rows())
	for _, pair := range w.order {
		if seen[pair] {
			return fmt.Errorf("pair %d is twice in the walk", pair)
		}
		seen[pair] = true
	}
	if len(w.order) != w.v.Rows() {
		return fmt.Errorf("%d of %d pairs are in the walk", len(w.order), w.v.Rows())
	}
	return writeInts(w.job.path("order.i32"), w.order)
}
