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
	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/stream"
)

func newSearchCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "search",
		Short: "answer searches over the segments of all closed groups (SEGMENTS_ROOT), at LIVE_ADDR",
		Long: "Answers GET /neighbors and POST /search, as live search does, over the segments that indexers have written to\n" +
			"SEGMENTS_ROOT. It maps them, owns no lane, and takes new ones up. Any number of such processes may run. It reads what\n" +
			"is taken back from the log.",
		Args: cobra.NoArgs,
	}
	cmd.RunE = withSegments(&dir, func(cmd *cobra.Command, log *stream.Log, s indexerservice.Settings, _ []string) error {
		logger := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("stage", "search")
		return indexerservice.RunSearch(cmd.Context(), log, s, logger, func(addr net.Addr, a *indexer.Archive) {
			fmt.Fprintf(cmd.OutOrStdout(), "search: http://%s, %d pairs\n", addr, a.Pairs())
		})
	})
	dataFlag(cmd, &dir)
	return cmd
}

// withSegments hands a command the log and the indexer's settings, which say where segments lie.
func withSegments(dir *string, do func(*cobra.Command, *stream.Log, indexerservice.Settings, []string) error) func(*cobra.Command, []string) error {
	return looking(dir, func(cmd *cobra.Command, log *stream.Log, args []string) error {
		environ, err := environIn(*dir)
		if err != nil {
			return err
		}
		s, err := config.Parse[indexerservice.Settings](environ)
		if err != nil {
			return err
		}
		return do(cmd, log, s, args)
	})
}
