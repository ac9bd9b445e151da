//go:build cgo

package main

import (
	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/operate/batches"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/internal/process/config"
)

func newBatchesCommand() *cobra.Command {
	var o batches.Options
	cmd := &cobra.Command{
		Use: "batches --out DIR " + tarsUse,
		Long: "Encodes, groups, samples and scores the pairs of the tars in this process, and writes the mini-batches of every epoch\n" +
			"into DIR: a row for each sample, with its key, tar and offset, its hardest candidates and Con-D's probabilities.\n" +
			"Parquet files that contain images, as Hugging Face's data sets do, are also accepted: their images go into DIR/images.\n" +
			"plan.json has the settings and digests. Images that are forgotten in the log of KAFKA_BROKERS or --data are left out.\n\n" +
			"Another program trains on the plan, so the encoder's features group every epoch. With GRIT_FEATURES=training the features\n" +
			"of the model in training do (--features), and a run writes one epoch more than it has files of features.\n\n" +
			"Settings come from the environment. An interrupted run continues when it is started again. The same data, models and\n" +
			"settings give the same bytes.\n\n" +
			"With --materialize the mini-batches are written once more, images included, as WebDataset tars in the order of training.\n" +
			"Without data that is all: `pairstream batches --out DIR --materialize TARS` takes a plan that is complete.",
		Args: wantArgs(0, anyNumber),
	}
	f := cmd.Flags()
	f.StringVar(&o.Out, "out", "", "folder of the plan")
	f.StringVar(&o.Recipe, "recipe", "", "paper whose settings apply where the environment has none; empty: RECIPE")
	f.IntVar(&o.Epochs, "epochs", 0, "times that a pair is trained on; 0: EPOCHS, or as often as the recipe says")
	f.StringVar(&o.Weights, "weights", "", "weights of the encoder and Con-D, if the environment names none (ENCODER_CHECKPOINT, COND_CHECKPOINT)")
	f.StringVar(&o.Columns.Image, "image-col", "image", "column of a Parquet file with the bytes of images")
	f.StringVar(&o.Columns.Caption, "caption-col", "caption", "column of a Parquet file with a caption, or several")
	f.StringVar(&o.Log, "data", rundir.DefaultData, "folder of an embedded broker's log, whose tombstones apply if KAFKA_BROKERS is empty")
	f.StringArrayVar(&o.Features, "features", nil, "Parquet file with the features of the model in training after an epoch; once for each epoch before the last")
	f.StringVar(&o.Tars, "materialize", "", "folder for WebDataset tars of the mini-batches, which any loader reads, a folder for each epoch")
	f.IntVar(&o.PerTar, "tar-batches", 1, "full mini-batches in a tar of --materialize")
	f.StringVar(&o.Strategy, "strategy", "", "Python function that puts the pairs of each epoch into mini-batches, as module:function (docs/strategies.md); empty: STRATEGY")
	f.StringVar(&o.Blend, "blend", "", "complete plans and their weights, such as a/:0.7,b/:0.3, whose mini-batches the plan takes in place of data")
	require(cmd, "out")
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		o.Sources = places(paths)
		return batches.Run(cmd.Context(), o, config.Environ(), cmd.OutOrStdout())
	}
	return cmd
}
