//go:build cgo

package main

import (
	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/operate/demo"
)

func newDemoCommand() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use: "demo",
		Long: "Publishes pairs and runs every stage until the crawl has ended. At the same time it trains with random mini-batches and\n" +
			"with GRIT's, from the same first model and for the same number of steps, and compares the models on held-out pairs.\n" +
			"Scenes come with a first model. On your own data the demo trains one on a part of it. Settings of the environment\n" +
			"override the demo's.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Run(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Data, "data", "", "folder of WebDataset tars; empty: scenes are generated")
	f.BoolVar(&o.Partial, "partial", false, "scenes whose captions omit things, as in experiment X14, so that truth needs the picture")
	cmd.MarkFlagsMutuallyExclusive("data", "partial")
	f.StringVar(&o.Dir, "dir", "data/demo", "folder for the demo's files; it is emptied first if an earlier demo wrote it")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of the scenes and of every run")
	f.IntVar(&o.HeldOut, "holdout", 0, "images to keep back for evaluation; 0: 400 scenes, or a seventh of your images, at most 100")
	f.Int64Var(&o.Boot, "bootstrap-steps", 0, "training steps of the first model; 0: none on scenes, which come with one, and 800 on your own data")
	f.IntVar(&o.Epochs, "epochs", 0, "times that a group is trained on; 0: 8, or 6 on your own data")
	f.BoolVar(&o.Short, "short", false, "train half as long, for checks")
	f.BoolVar(&o.Check, "check", false, "fail if a pair is missing in the account or a loss did not fall")
	return cmd
}
