package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

const (
	maxLoad    = 1.0 // of the machine before a run
	quietTries = 18  // after a build the average of the last minute takes a while to fall
	quietPause = 10 * time.Second
)

// quiet waits until other programs leave the machine alone, and returns the load then. A busy run does not wait.
func quiet(ctx context.Context, out io.Writer, busy bool, load func() (float64, error), pause time.Duration) (float64, error) {
	for try := 0; ; try++ {
		now, err := load()
		if err != nil || now <= maxLoad || busy {
			return now, err
		}
		if try == quietTries {
			return 0, fmt.Errorf("the load of the machine is %.2f, want at most %g: end other programs, or give --busy, which marks the rows", now, maxLoad)
		}
		fmt.Fprintf(out, "the load of the machine is %.2f, waiting until it is at most %g (--busy does not wait)\n", now, maxLoad)
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
