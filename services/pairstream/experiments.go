//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/service/engine"
	"github.com/pairstream/pairstream/internal/service/experiments"
	"github.com/pairstream/pairstream/internal/torch"
)

// experimentJob is what the command line asks for.
type experimentJob struct {
	part  string
	seeds []uint
	out   string
	sizes experiments.Sizes
}

const (
	partAll         = "all"
	partSampling    = "sampling"
	partConnections = "connections"
)

func newExperimentsCommand() *cobra.Command {
	j := experimentJob{sizes: experiments.DefaultSizes()}
	cmd := &cobra.Command{
		Use:   "experiments",
		Short: "repeat two claims of the papers on generated scenes: GRIT against random, connections against the truth",
		Long: "Trains small models on generated scenes, a few minutes a seed and experiment on two cores, and prints the tables of\n" +
			"docs/papers.md. Results that are in --out already are not made again. Fails when a claim does not hold.",
		Args: cobra.NoArgs,
		RunE: j.run,
	}
	f := cmd.Flags()
	f.StringVar(&j.part, "part", partAll, "sampling, connections or all")
	f.UintSliceVar(&j.seeds, "seeds", []uint{1, 2, 3}, "seeds, each with scenes and weights of its own")
	f.StringVar(&j.out, "out", "data/experiments.json", "file of the results")
	f.IntVar(&j.sizes.Scenes, "scenes", j.sizes.Scenes, "scenes, with a caption each")
	f.Int64Var(&j.sizes.StartSteps, "start-steps", j.sizes.StartSteps, "steps of the model that sampling starts from")
	f.Int64Var(&j.sizes.CondSteps, "con-d-steps", j.sizes.CondSteps, "steps of Con-D")
	f.IntVar(&j.sizes.Epochs, "epochs", j.sizes.Epochs, "epochs of sampling")
	return cmd
}

func (j *experimentJob) run(cmd *cobra.Command, _ []string) error {
	if j.part != partAll && j.part != partSampling && j.part != partConnections {
		return fmt.Errorf("--part is %q, want %q, %q or %q", j.part, partSampling, partConnections, partAll)
	}
	device, err := config.Parse[engine.Device](config.Environ())
	if err != nil {
		return err
	}
	results, err := experiments.ReadResults(j.out)
	if err != nil {
		return err
	}
	worker, err := device.NewWorker()
	if err != nil {
		return err
	}
	defer worker.Close()
	for _, seed := range j.seeds {
		if err := j.seed(cmd.Context(), worker, uint64(seed), results, cmd.OutOrStdout()); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return errors.Join(results.Print(cmd.OutOrStdout()), results.Check())
}

// seed makes what is missing of a seed.
func (j *experimentJob) seed(ctx context.Context, w *torch.Worker, seed uint64, results *experiments.Results, log io.Writer) (err error) {
	sampling := j.part != partConnections && !results.HasSampling(seed)
	connections := j.part != partSampling && !results.HasConnections(seed)
	if !sampling && !connections {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(j.out), 0o755); err != nil {
		return fmt.Errorf("making the folder of the results: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(j.out), "experiments-")
	if err != nil {
		return fmt.Errorf("making a folder for scenes and weights: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	setup, err := experiments.New(ctx, w, dir, seed, j.sizes, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, setup.Close()) }()
	if sampling {
		s, err := setup.Sampling(ctx)
		if err != nil {
			return err
		}
		results.Sampling = append(results.Sampling, s)
		if err := results.Write(j.out); err != nil {
			return err
		}
	}
	if connections {
		c, err := setup.Connections(ctx)
		if err != nil {
			return err
		}
		results.Connections = append(results.Connections, c)
		return results.Write(j.out)
	}
	return nil
}
