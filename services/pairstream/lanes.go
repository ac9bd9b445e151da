package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/inspect"
	"github.com/pairstream/pairstream/schemas"
)

func newLanesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "lanes"}
	cmd.AddCommand(newLanesListCommand(), newLanesLookCommand(), newLanesSkipCommand())
	return cmd
}

func newLanesListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "list parked and waiting lanes, and the records that operators have skipped", Args: cobra.NoArgs}
	looking(cmd, func(at logCommand) error {
		states, err := inspect.LaneStates(at.Context(), at.log)
		if err != nil {
			return err
		}
		skips, err := at.log.Skips(at.Context())
		if err != nil {
			return err
		}
		return inspect.PrintLanes(at.OutOrStdout(), states, skips)
	})
	return cmd
}

// laneFlags choose a lane of a stage.
type laneFlags struct {
	stage string
	lane  int
}

func (f *laneFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.stage, "stage", "", "the stage that has parked the lane")
	cmd.Flags().IntVar(&f.lane, "lane", -1, "the lane")
	require(cmd, "stage", "lane")
}

func newLanesLookCommand() *cobra.Command {
	var f laneFlags
	cmd := &cobra.Command{
		Use: "look", Short: "read a lane as its stage does, and report the damage", Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		damage, err := inspect.FindDamage(at.Context(), at.log, f.stage, f.lane)
		if err != nil {
			return err
		}
		if len(damage) == 0 {
			_, err = fmt.Fprintf(at.OutOrStdout(), "the inputs of the %s in lane %d can be read to their ends; where a record is at fault, "+
				"`pairstream lanes list` names it, and `pairstream lanes skip --topic T --record OFFSET` passes over it\n", f.stage, f.lane)
		}
		for _, s := range damage {
			err = errors.Join(err, printSkip(at.OutOrStdout(), "would ", s))
		}
		return err
	})
	f.add(cmd)
	return cmd
}

func printSkip(out io.Writer, would string, s stream.Skip) error {
	what := fmt.Sprintf("give up seqs %d to %d", s.From.Seq, s.To.Seq-1)
	if s.From.Seq == s.To.Seq {
		what = fmt.Sprintf("pass over offsets %d to %d", s.From.Offset, s.To.Offset-1)
	}
	_, err := fmt.Fprintf(out, "%s, lane %d: %s\n  skip %s%s, and go on with offset %d, seq %d\n", s.Topic, s.Lane, s.Found, would, what, s.To.Offset, s.To.Seq)
	return err
}

func newLanesSkipCommand() *cobra.Command {
	var topic, reason string
	var f laneFlags
	var record int64
	cmd := &cobra.Command{
		Use: "skip", Short: "let a parked lane continue without lost, foreign or broken records; the decision is permanent", Args: cobra.NoArgs,
		Long: "Records in the topic `control` that the lane continues after the damage. All readers of the topic follow this decision,\n" +
			"including a replay. The stage resumes the lane within a minute. --topic and --record skip one record.",
	}
	looking(cmd, func(at logCommand) error {
		damage, err := inspect.FindDamage(at.Context(), at.log, f.stage, f.lane)
		if record >= 0 && err == nil {
			damage, err = inspect.OneRecord(at.Context(), at.log, schemas.Topic(topic), f.lane, record)
		}
		switch {
		case err != nil:
			return err
		case len(damage) == 0:
			return fmt.Errorf("nothing is wrong with the inputs of the %s in lane %d: name one record with --topic and --record", f.stage, f.lane)
		}
		for _, s := range damage {
			s.Reason = reason
			if err := at.log.Skip(at.Context(), s); err != nil {
				return err
			}
			if err := printSkip(at.OutOrStdout(), "will ", s); err != nil {
				return err
			}
		}
		return nil
	})
	f.add(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for later readers")
	cmd.Flags().StringVar(&topic, "topic", "", "topic of --record")
	cmd.Flags().Int64Var(&record, "record", -1, "offset of the record to skip")
	return cmd
}
