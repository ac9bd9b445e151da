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

	"github.com/pairstream/pairstream/experiments"
	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/service/device"
	"github.com/pairstream/pairstream/internal/torch"
)

// experimentJob holds what the command line asks for.
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
		Long: "Trains small models on generated scenes, several at a time, and prints the tables of docs/papers.md. Results\n" +
			"that are in --out already are not made again. Fails when a claim does not hold.",
		Args: cobra.NoArgs,
		RunE: j.run,
	}
	f := cmd.Flags()
	f.UintSliceVar(&j.seeds, "seeds", []uint{1, 2, 3}, "seeds, each with scenes and weights of its own")
	f.StringVar(&j.out, "out", "data/experiments.json", "file of the results")
	f.IntVar(&j.sizes.Scenes, "scenes", j.sizes.Scenes, "scenes, with a caption each")
	f.Int64Var(&j.sizes.FirstSteps, "first-steps", j.sizes.FirstSteps, "steps of the first model of the comparison")
	f.Int64Var(&j.sizes.CondSteps, "con-d-steps", j.sizes.CondSteps, "steps of Con-D")
	f.IntVar(&j.sizes.Batch, "batch", j.sizes.Batch, "pairs of a mini-batch, of those that are compared")
	f.IntVar(&j.sizes.Space, "space", j.sizes.Space, "search space of GRIT, in mini-batches")
	f.IntVar(&j.sizes.Epochs, "epochs", j.sizes.Epochs, "epochs of either training that is compared")
	return cmd
}

func (j *experimentJob) run(cmd *cobra.Command, _ []string) error {
	device, err := config.Parse[device.Settings](config.Environ())
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
	var missing []func(context.Context, *torch.Worker) error
	for _, seed := range j.seeds {
		job := j.job(uint64(seed), cmd.OutOrStdout())
		if !j.results.HasSampling(job.Seed) { // the longer ones first
			missing = append(missing, func(ctx context.Context, w *torch.Worker) error {
				job.Worker = w
				s, err := experiments.RunSampling(ctx, job)
				return j.keep(s, nil, err)
			})
		}
	}
	for _, seed := range j.seeds {
		job := j.job(uint64(seed), cmd.OutOrStdout())
		if !j.results.HasConnections(job.Seed) {
			missing = append(missing, func(ctx context.Context, w *torch.Worker) error {
				job.Worker = w
				c, err := experiments.RunConnections(ctx, job)
				return j.keep(nil, c, err)
			})
		}
	}
	tasks, ctx := errgroup.WithContext(cmd.Context())
	tasks.SetLimit(max(runtime.GOMAXPROCS(0)/device.Threads, 1))
	for _, run := range missing {
		tasks.Go(func() error {
			worker, err := device.NewWorker()
			if err != nil {
				return err
			}
			defer worker.Close()
			return run(ctx, worker)
		})
	}
	if err := tasks.Wait(); err != nil {
		return err
	}
	return errors.Join(j.results.Print(cmd.OutOrStdout()), j.results.Check())
}

// job returns the job of a seed, without its worker.
func (j *experimentJob) job(seed uint64, out io.Writer) experiments.Job {
	return experiments.Job{Dir: filepath.Dir(j.out), Seed: seed, Sizes: j.sizes, Log: func(line string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		fmt.Fprintf(out, "seed %d: %s\n", seed, line)
	}}
}

// keep adds a result to the file.
func (j *experimentJob) keep(s *experiments.Sampling, c *experiments.Connections, err error) error {
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.results.Add(s, c)
	return j.results.Write(j.out)
}
