//go:build cgo

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/segment"
	"github.com/pairstream/pairstream/internal/stream"
)

func newFAISSCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "faiss FOLDER",
		Short: "write the closed groups in SEGMENTS_ROOT as indexes that FAISS reads",
		Long: "Writes two indexes for every closed group in SEGMENTS_ROOT, of its images and of its texts, for faiss.read_index:\n" +
			"IndexIVFScalarQuantizer, with the vectors of 8-bit codes as float16. A third file says which pair has which id. What is\n" +
			"taken back is left out. It holds the rows of one index in memory: 2.6 GB with five million of 256 values.",
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = withSegments(&dir, func(cmd *cobra.Command, log *stream.Log, s indexerservice.Settings, args []string) error {
		groups, pairs := 0, 0
		err := indexerservice.WriteFAISS(cmd.Context(), log, s, args[0], func(one *segment.Segment) {
			groups, pairs = groups+1, pairs+one.Rows
			fmt.Fprintf(cmd.OutOrStdout(), "group %s: %d pairs\n", one.Group, one.Rows)
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%d groups with %d pairs are in %s\n", groups, pairs, args[0])
		return nil
	})
	dataFlag(cmd, &dir)
	return cmd
}
