package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/demo/scenes"
)

// newSynthCommand returns the generator of scenes with all its options. `pairstream synth` has those that a user needs
// to try the pipeline.
func newSynthCommand() *cobra.Command {
	o := scenes.Defaults()
	cmd := &cobra.Command{
		Use:   "synth DIR",
		Short: "write shards of captioned scenes, some of whose captions are false or fit other scenes",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			if err := scenes.WriteDir(cmd.Context(), args[0], o, nil); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "wrote %d scenes with %d captions each to %s\n", o.Scenes, o.Captions, args[0])
			return nil
		},
	}
	f := cmd.Flags()
	o.AddFlags(f)
	f.Float64Var(&o.WrongShare, "wrong", o.WrongShare, "share of captions that are false of their picture, marked in key.json")
	f.Float64Var(&o.IrrelevantShare, "irrelevant", o.IrrelevantShare, "share of captions that are not about the picture, marked in key.json")
	f.Float64Var(&o.FalseNegatives, "false-negatives", 0, "share of pictures that fit one of the captions of 95 other scenes, 0.02 to 0.4; 0: as captions come")
	f.IntVar(&o.Kinds.Colours, "colours", 0, "number of colours; 0: all")
	return cmd
}
