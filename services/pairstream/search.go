//go:build cgo

package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/indexer"
	indexerservice "github.com/pairstream/pairstream/indexer/service"
)

func newSearchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "search",
		Short: "answer searches over the segments of all closed groups (SEGMENTS_ROOT), at LIVE_ADDR",
		Long: "Answers GET /neighbors and POST /search, as live search does, over the segments that indexers have written to\n" +
			"SEGMENTS_ROOT. It maps them, owns no lane, and takes new ones up. Any number of such processes may run. It reads what\n" +
			"is taken back from the log.",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at look) error {
		s, err := settingsIn[indexerservice.Settings](at.dir)
		if err != nil {
			return err
		}
		logger := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("stage", "search")
		return indexerservice.RunSearch(at.Context(), at.log, s, logger, func(addr net.Addr, a *indexer.Archive) {
			fmt.Fprintf(at.OutOrStdout(), "search: http://%s, %d pairs\n", addr, a.Pairs())
		})
	})
	return cmd
}
