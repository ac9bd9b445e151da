//go:build cgo

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/experiments"
	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/service/device"
)

func newCandidatesCommand() *cobra.Command {
	sizes := experiments.DefaultSizes()
	sizes.Epochs = 3
	var seed uint64
	cmd := &cobra.Command{
		Use:   "candidates",
		Short: "measure on generated scenes how many candidates (CANDIDATES) Con-D has to score to find the hardest, and what that costs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := config.Parse[device.Settings](config.Environ())
			if err != nil {
				return err
			}
			worker, err := settings.NewWorker()
			if err != nil {
				return err
			}
			defer worker.Close()
			dir, err := os.MkdirTemp("", "pairstream-candidates-")
			if err != nil {
				return fmt.Errorf("making a folder for scenes and weights: %w", err)
			}
			defer os.RemoveAll(dir)
			rows, err := experiments.RunCoverage(cmd.Context(), experiments.Job{
				Worker: worker, Dir: dir, Seed: seed, Sizes: sizes, Log: func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) },
			})
			if err != nil {
				return err
			}
			return experiments.PrintCoverage(cmd.OutOrStdout(), rows)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&seed, "seed", 1, "of scenes and weights")
	f.IntVar(&sizes.Scenes, "scenes", sizes.Scenes, "scenes, with a caption each")
	f.Int64Var(&sizes.FirstSteps, "first-steps", sizes.FirstSteps, "steps of the first model, which is Con-D as well")
	f.IntVar(&sizes.FirstBatch, "batch", sizes.FirstBatch, "N: pairs of a mini-batch")
	f.IntVar(&sizes.Epochs, "epochs", sizes.Epochs, "epochs; the first one is not counted")
	return cmd
}
