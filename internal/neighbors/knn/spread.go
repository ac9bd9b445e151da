package knn

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Workers returns how many goroutines to use for a number of tasks. 0 are asked for: all processors.
func Workers(asked, tasks int) int {
	if asked <= 0 {
		asked = runtime.GOMAXPROCS(0)
	}
	return max(1, min(asked, tasks))
}

// Spread runs the tasks 0..n-1 on the workers, each task on one, in ascending order of start. It stops at the first
// error, and between tasks when ctx ends.
func Spread(ctx context.Context, workers, n int, task func(worker, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for worker := range workers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := task(worker, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}
