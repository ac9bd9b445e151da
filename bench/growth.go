package main

import (
	"context"
	"fmt"
)

// growthRow measures a kind of work at 1, 2, 4 and 8 times a size. Each size runs in a process of its own, which shows its
// peak memory.
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
