package main

import (
	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/operate/progress"
)

func newProgressCommand() *cobra.Command {
	var o progress.Options
	cmd := &cobra.Command{
		Use: "progress",
		Long: "Prints the reports of the topic progress, oldest first. A step that was repeated after a crash appears once, with its\n" +
			"last report. --tensorboard writes curves for `tensorboard --logdir DIR`. --to sends the run to MLflow or Weights &\n" +
			"Biases, with its settings and last checkpoint, through the Python package: install its wheel, and mlflow-skinny or\n" +
			"wandb, with pip. --follow continues with new reports until it is interrupted.",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		o.Dir = at.dir
		return o.Run(at.Context(), at.log, at.OutOrStdout(), at.ErrOrStderr())
	})
	f := cmd.Flags()
	f.BoolVar(&o.JSON, "json", false, "print JSON, an object a line")
	f.BoolVar(&o.CSV, "csv", false, "print CSV, with a column for each value")
	f.StringVar(&o.Board, "tensorboard", "", "folder for TensorBoard's event file, which is replaced; nothing else is printed")
	f.StringSliceVar(&o.Kinds, "kind", nil, "only these: step, eval, checkpoint")
	f.BoolVar(&o.Follow, "follow", false, "continue with new reports until interrupted")
	f.StringVar(&o.Tracker.To, "to", "", "service that gets the reports, configured by its own variables (MLFLOW_TRACKING_URI, WANDB_API_KEY): mlflow, wandb")
	f.StringVar(&o.Tracker.Project, "project", "pairstream", "--to: MLflow's experiment, or the project of Weights & Biases")
	f.StringVar(&o.Tracker.Name, "run", "", "--to: name of the run, which the same name continues; empty: the namespace, or pairstream")
	f.StringVar(&o.Tracker.Python, "python", "", "--to: a Python with the package pairstream; empty: PAIRSTREAM_PYTHON, or python3")
	f.StringVar(&o.Manifest, "manifest", "", "--to, --tensorboard: the run's manifest of run-manifest, whose settings and models are sent; empty: the settings that demo and up leave in --data")
	cmd.MarkFlagsMutuallyExclusive("json", "csv", "tensorboard", "to")
	cmd.MarkFlagsMutuallyExclusive("follow", "csv")
	cmd.MarkFlagsMutuallyExclusive("follow", "tensorboard")
	return cmd
}
