// Command traces measures what traces cost. It runs `pairstream batches` on generated scenes again and again, in turn
// without traces and with them, and compares the processor time of neighbouring runs. Other programs hardly change
// that.
//
//	bin/lab/traces [-program bin/pairstream] [-runs 20] [-rate 0.001]
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/stat"
)

func main() {
	program := flag.String("program", "bin/pairstream", "the program")
	runs := flag.Int("runs", 20, "runs without traces, and as many with them")
	rate := flag.String("rate", "0.001", "share of the pairs that is followed (OTEL_TRACES_SAMPLER_ARG)")
	weights := flag.String("weights", "internal/demo/models/first.safetensors", "encoder and Con-D")
	flag.Parse()
	if err := measure(context.Background(), *program, *weights, *rate, *runs, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "traces:", err)
		os.Exit(1)
	}
}

// measure prints the processor time of both sides, and by how much one of traces is above its neighbour.
func measure(ctx context.Context, program, weights, rate string, runs int, out io.Writer) error {
	dir, err := os.MkdirTemp("", "traces")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	received, address, err := collect(ctx)
	if err != nil {
		return err
	}
	scenes, plan := filepath.Join(dir, "scenes"), filepath.Join(dir, "plan")
	if _, err := cpu(ctx, nil, program, "synth", scenes, "--scenes", "2400"); err != nil {
		return err
	}
	batches := func(env ...string) (float64, error) {
		took, err := cpu(ctx, env, program, "batches", scenes, "--out", plan, "--epochs", "2", "--weights", weights)
		if err == nil {
			err = os.RemoveAll(plan)
		}
		return took, err
	}
	var without, with, above []float64
	for n := range runs {
		var off, on float64
		for _, traced := range []bool{n%2 == 1, n%2 == 0} { // whoever is second may find a warmer machine
			if !traced {
				off, err = batches("OTEL_EXPORTER_OTLP_ENDPOINT=")
			} else {
				on, err = batches("OTEL_EXPORTER_OTLP_ENDPOINT="+address, "OTEL_TRACES_SAMPLER_ARG="+rate)
			}
			if err != nil {
				return err
			}
		}
		without, with, above = append(without, off), append(with, on), append(above, 100*(on/off-1))
		fmt.Fprintf(out, "%2d  without %.3f s, with %.3f s, %+.2f %%\n", n+1, off, on, above[n])
	}
	for _, side := range []struct {
		name, unit string
		values     []float64
	}{{"without", "s", without}, {"with", "s", with}, {"above", "%", above}} {
		m, deviation := stat.MeanStdDev(side.values, nil)
		fmt.Fprintf(out, "%-8s %.3f %s ± %.3f, of the mean ± %.3f\n", side.name, m, side.unit, deviation, deviation/math.Sqrt(float64(runs)))
	}
	fmt.Fprintf(out, "%d bytes of traces were received\n", received.Load())
	return nil
}

// cpu runs a command and returns the processor time that it took, in seconds.
func cpu(ctx context.Context, env []string, name string, args ...string) (float64, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), "TORCH_THREADS=1"), env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%s %v: %w\n%s", name, args, err, said)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}

// collect receives traces in place of an OpenTelemetry collector, and counts their bytes.
func collect(ctx context.Context) (received *atomic.Int64, address string, err error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	received = new(atomic.Int64)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body) // a body that is cut off counts as far as it came
		received.Add(n)
	})}
	go func() { _ = server.Serve(l) }() // ends with the process
	return received, "http://" + l.Addr().String(), nil
}
