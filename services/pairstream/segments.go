//go:build cgo

package main

import (
	"fmt"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/operate/rundir"

	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
)

func newFAISSCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "faiss FOLDER",
		Long: "Writes two indexes for every closed group in SEGMENTS_ROOT, of its images and of its texts, for faiss.read_index:\n" +
			"IndexIVFScalarQuantizer, with the vectors of 8-bit codes as float16. A third file maps ids to pairs. Pairs that are taken\n" +
			"back are left out. It holds the rows of one index in memory: 2.6 GB for five million rows of 256 values.",
		Args: cobra.ExactArgs(1),
	}
	looking(cmd, func(at logCommand) error {
		s, err := rundir.SettingsIn[indexerservice.Settings](at.dir)
		if err != nil {
			return err
		}
		groups, pairs := 0, 0
		err = indexerservice.WriteFAISS(at.Context(), at.log, s, at.args[0], func(one *segment.Segment) {
			groups, pairs = groups+1, pairs+one.Rows
			fmt.Fprintf(at.OutOrStdout(), "group %s: %d pairs\n", one.Group, one.Rows)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(at.OutOrStdout(), "%d groups with %d pairs are in %s\n", groups, pairs, at.args[0])
		return nil
	})
	return cmd
}

func newSearchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "search",
		Long: "Answers GET /neighbors and POST /search, as live search does, over the segments that indexers have written to\n" +
			"SEGMENTS_ROOT. It maps the segments, adds new ones, and owns no lane. Any number of such processes may run. It reads\n" +
			"tombstones from the log.",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		s, err := rundir.SettingsIn[indexerservice.Settings](at.dir)
		if err != nil {
			return err
		}
		logger := rundir.Logger(slog.LevelInfo).With(keyStage, "search")
		return indexerservice.RunSearch(at.Context(), at.log, s, logger, func(addr net.Addr, a *indexer.Archive) {
			fmt.Fprintf(at.OutOrStdout(), "search: http://%s, %d pairs\n", addr, a.Pairs())
		})
	})
	return cmd
}
