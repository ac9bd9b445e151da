package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/scenes"
)

func newSynthCommand() *cobra.Command {
	o := scenes.Defaults()
	cmd := &cobra.Command{
		Use:   "synth DIR",
		Short: "write shards of captioned scenes: drawn pictures whose true captions are known",
		Args:  wantArgs(1, 1),
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
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed; the same seed gives the same bytes")
	f.IntVar(&o.Scenes, "scenes", o.Scenes, "number of scenes")
	f.IntVar(&o.Captions, "captions", o.Captions, "captions of each scene")
	f.IntVar(&o.Side, "side", o.Side, "pixels on a side of the pictures")
	f.StringVar(&o.Format, "format", o.Format, "png or jpeg")
	f.IntVar(&o.PerShard, "per-shard", o.PerShard, "scenes in a tar")
	f.Float64Var(&o.WrongShare, "wrong", o.WrongShare, "share of captions that are false of their picture, marked in key.json")
	f.Float64Var(&o.IrrelevantShare, "irrelevant", o.IrrelevantShare, "share of captions that are not about the picture, marked in key.json")
	f.IntVar(&o.Kinds.Shapes, "shapes", 0, "number of shapes; fewer make more captions true of more pictures; 0: all")
	f.IntVar(&o.Kinds.Colours, "colours", 0, "number of colours; 0: all")
	f.Float64Var(&o.FalseNegatives, "false-negatives", 0, "share of pictures that fit one of the captions of 95 other scenes, 0.02 to 0.4; 0: as captions come")
	f.BoolVar(&o.Kinds.Plain, "plain", false, "leave stripes and spots out")
	f.BoolVar(&o.Kinds.Large, "large", false, "leave small objects out")
	f.IntVar(&o.Kinds.Objects, "objects", 0, "objects of every scene; 0: one to four")
	return cmd
}
