//go:build cgo

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/trainer/bootstrap"
)

// walkBatches is the search space of the hard phase, in mini-batches: GRIT-VLP's 960 pairs of mini-batches of 96.
const walkBatches = 10

// gritWalk orders pairs by GRIT's walks.
func gritWalk(seed uint64, workers int) bootstrap.Walk {
	return func(ctx context.Context, v, t []float32, dim int, images []int32, batch, round int) ([]int32, error) {
		order := make([]int32, len(images))
		for i := range order {
			order[i] = int32(i)
		}
		rule := grouper.GRITRule{BatchSize: batch, SearchSpace: walkBatches * batch, Workers: max(1, workers)}
		plan, err := grouper.GRIT(ctx, order, vectors{v, t, dim}, images, rule, grouper.Key{Seed: seed, Epoch: round}.Draws())
		return plan.Order, err
	}
}

// vectors implements [grouper.Features].
type vectors struct {
	v, t []float32
	dim  int
}

func (x vectors) Dim() int { return x.dim }

func (x vectors) Read(position int32, v, t []float32) {
	at := int(position) * x.dim
	copy(v, x.v[at:at+x.dim])
	copy(t, x.t[at:at+x.dim])
}

// checkReporter prints checks, with the time that is left at most: as long as the steps since the first check took.
func checkReporter(w io.Writer, now func() time.Time) func(bootstrap.Check) {
	var first *bootstrap.Check
	var began time.Time
	return func(c bootstrap.Check) {
		fmt.Fprintf(w, "step %5d  %-8s  AUC on hard pairs %.3f, best %.3f", c.Step, c.Phase, c.HardAUC, c.Best)
		if c.Left > 0 {
			fmt.Fprintf(w, "; at most %d steps are left", c.Left)
			if first != nil && c.Step > first.Step {
				each := now().Sub(began) / time.Duration(c.Step-first.Step)
				fmt.Fprintf(w, ", %s", (each * time.Duration(c.Left)).Round(time.Second))
			}
		}
		fmt.Fprintln(w)
		if first == nil {
			first, began = &c, now()
		}
	}
}
