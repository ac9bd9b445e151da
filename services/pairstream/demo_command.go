//go:build cgo

package main

import (
	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/run/demo"
)

func newDemoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use: "demo",
		Long: "Publishes pairs and runs every stage until the crawl has ended. Beside it, it does the same with random mini-batches and\n" +
			"with GRIT's, from the same first model and for as many steps. It measures what each has taught on held-out pairs.\n" +
			"Scenes come with a first model; on your own data a slice of it trains one. Settings of the environment override\n" +
			"the demo's.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Run(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", "", "folder of WebDataset tars; empty: scenes are generated")
	f.StringVar(&o.Dir, "dir", "data/demo", "folder of everything that the demo writes; that of an earlier demo is emptied first")
	f.Uint64Var(&o.Seed, "seed", 1, "draws other scenes, and seeds every run")
	f.IntVar(&o.HeldOut, "holdout", 0, "images to keep back for evaluation; 0: 400 of scenes, else a seventh of the images, 100 at most")
	f.Int64Var(&o.Boot, "bootstrap-steps", 0, "training steps of the first model; 0: none for scenes, which bring one, or 800")
	f.IntVar(&o.Epochs, "epochs", 0, "times that a group is trained on; 0: 8, or 6 on your own data")
	f.BoolVar(&o.Short, "short", false, "half of the training, for checks")
	f.BoolVar(&o.Check, "check", false, "fail when a pair is not accounted for or a loss did not fall")
	return cmd
}
