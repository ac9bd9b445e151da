//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/service/experiments"
)

// experimentJob is what the command line asks for.
type experimentJob struct {
	seeds []uint
	out   string
	sizes experiments.Sizes

	mu      sync.Mutex // guards the results and the output
	results *experiments.Results
}

func newExperimentsCommand() *cobra.Command {
	j := experimentJob{sizes: experiments.DefaultSizes()}
	cmd := &cobra.Command{
		Use:   "experiments",
		Short: "repeat two claims of the papers on generated scenes: GRIT against random, connections against the truth",
		Long: "Trains small models on generated scenes, several at a time, and prints the tables of docs/papers.md. Seeds whose\n" +
			"results are in --out already are not run again. Fails when a claim does not hold.",
		Args: cobra.NoArgs,
		RunE: j.run,
	}
	f := cmd.Flags()
	f.UintSliceVar(&j.seeds, "seeds", []uint{1, 2, 3}, "seeds, each with scenes and weights of its own")
	f.StringVar(&j.out, "out", "data/experiments.json", "file of the results")
	f.IntVar(&j.sizes.Scenes, "scenes", j.sizes.Scenes, "scenes, with a caption each")
	f.Int64Var(&j.sizes.FirstSteps, "first-steps", j.sizes.FirstSteps, "steps of the first model")
	f.IntVar(&j.sizes.Batch, "batch", j.sizes.Batch, "pairs of a mini-batch, of those that are compared")
	f.IntVar(&j.sizes.Space, "space", j.sizes.Space, "search space of GRIT, in mini-batches")
	f.IntVar(&j.sizes.Epochs, "epochs", j.sizes.Epochs, "epochs of either training that is compared")
	return cmd
}

func (j *experimentJob) run(cmd *cobra.Command, _ []string) error {
	device, err := config.Parse[engine.Device](config.Environ())
	if err != nil {
		return err
	}
	if device.Threads == 0 {
		device.Threads = 1 // models this small gain more from several trainings at a time
	}
	if j.results, err = experiments.ReadResults(j.out); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(j.out), 0o755); err != nil {
		return fmt.Errorf("making the folder of the results: %w", err)
	}
	var missing []uint64
	for _, seed := range j.seeds {
		if !j.results.Has(uint64(seed)) {
			missing = append(missing, uint64(seed))
		}
	}
	tasks, ctx := errgroup.WithContext(cmd.Context())
	tasks.SetLimit(max(runtime.GOMAXPROCS(0)/device.Threads, 1))
	for _, seed := range missing {
		tasks.Go(func() error { return j.seed(ctx, device, seed, cmd.OutOrStdout()) })
	}
	if err := tasks.Wait(); err != nil {
		return err
	}
	return errors.Join(j.results.Print(cmd.OutOrStdout()), j.results.Check())
}

// seed runs the experiments with a seed, on a worker of their own, and keeps the results.
func (j *experimentJob) seed(ctx context.Context, device engine.Device, seed uint64, out io.Writer) error {
	worker, err := device.NewWorker()
	if err != nil {
		return err
	}
	defer worker.Close()
	job := experiments.Job{Worker: worker, Dir: filepath.Dir(j.out), Seed: seed, Sizes: j.sizes, Log: func(line string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		fmt.Fprintf(out, "seed %d: %s\n", seed, line)
	}}
	connections, err := experiments.RunConnections(ctx, job)
	if err != nil {
		return fmt.Errorf("seed %d: connections: %w", seed, err)
	}
	sampling, err := experiments.RunSampling(ctx, job)
	if err != nil {
		return fmt.Errorf("seed %d: sampling: %w", seed, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.results.Add(sampling, connections)
	return j.results.Write(j.out)
}
