// Counts counts what a GPU would do: kernels, waits of the host, operations of products, bytes. It runs every stage's model once
// on the device of tests ([testdevice]), which needs no GPU. From the counts it predicts the time on an H100.
//
// Operations and bytes of a larger batch follow from those of two small ones, as they are linear in it. The number of kernels
// does not depend on it.
//
// Usage:
//
//	go run ./bench/counts                                       # preset base, mini-batches of 96
//	go run ./bench/counts --preset tiny --batch 96
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pairstream/pairstream/internal/torch/testdevice"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "counts:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("counts", flag.ContinueOnError)
	preset := f.String("preset", "base", "of the models")
	batch := f.Int("batch", 96, "samples of a mini-batch")
	few := f.Int("few", 4, "samples of the small batch that is run; the other one has twice as many")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *few < 4 {
		return fmt.Errorf("--few is %d, want 4 or more", *few)
	}
	small, err := measure(ctx, *preset, *few)
	if err != nil {
		return err
	}
	large, err := measure(ctx, *preset, 2**few)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(out, table(small, large, *few, *batch))
	return err
}

// Prediction is what a stage takes on an H100, by its counts.
type Prediction struct{ Products, Memory, Host float64 } // seconds

const (
	products  = 0.4 * 989e12 // operations/s: bfloat16, dense, at 40 % of the data sheet
	bandwidth = 0.8 * 3.35e12
	launch    = 8e-6  // s of the host for a kernel
	wait      = 30e-6 // s from the end of a kernel until the host has started the next
)

// predict predicts the time of counts. The host starts kernels while the device computes, so the longer of the two counts.
func predict(c testdevice.Counts) Prediction {
	return Prediction{
		Products: c.Operations / products, Memory: c.Bytes / bandwidth,
		Host: launch*float64(testdevice.Total(c.Kernels)) + wait*float64(testdevice.Total(c.Syncs)),
	}
}

// Seconds returns the time of a stage.
func (p Prediction) Seconds() float64 { return max(p.Products+p.Memory, p.Host) }

// scaled returns the counts of n samples, by those of few and of twice as many.
func scaled(small, large testdevice.Counts, few, n int) testdevice.Counts {
	times := float64(n-few) / float64(few)
	line := func(a, b float64) float64 { return a + times*(b-a) }
	c := large
	c.Operations, c.Bytes, c.Uploaded = line(small.Operations, large.Operations), line(small.Bytes, large.Bytes), line(small.Uploaded, large.Uploaded)
	return c
}

func table(small, large map[stage]testdevice.Counts, few, n int) string {
	var t strings.Builder
	t.WriteString("| a mini-batch of " + fmt.Sprint(n) + " | kernels | waits | products | read and written | float64 or int64 | predicted, H100 |\n|---|---|---|---|---|---|---|\n")
	for _, s := range stages {
		c := scaled(small[s], large[s], few, n)
		p := predict(c)
		fmt.Fprintf(&t, "| %s | %d | %d | %.3g TFLOP | %.3g GB | %d | %.3g ms: products %.3g, memory %.3g; host %.3g |\n", s, testdevice.Total(c.Kernels), testdevice.Total(c.Syncs),
			c.Operations/1e12, c.Bytes/1e9, testdevice.Total(c.Wide), 1e3*p.Seconds(), 1e3*p.Products, 1e3*p.Memory, 1e3*p.Host)
	}
	return t.String()
}
