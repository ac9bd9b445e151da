//go:build cgo

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/segment"
)

func newFAISSCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "faiss FOLDER",
		Short: "write the closed groups in SEGMENTS_ROOT as indexes that FAISS reads",
		Long: "Writes two indexes for every closed group in SEGMENTS_ROOT, of its images and of its texts, for faiss.read_index:\n" +
			"IndexIVFScalarQuantizer, with the vectors of 8-bit codes as float16. A third file says which pair has which id. What is\n" +
			"taken back is left out. It holds the rows of one index in memory: 2.6 GB with five million of 256 values.",
		Args: cobra.ExactArgs(1),
	}
	looking(cmd, func(at look) error {
		s, err := settingsIn[indexerservice.Settings](at.dir)
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
