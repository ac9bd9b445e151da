package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/atomicfile"
	runs "github.com/pairstream/pairstream/internal/compare"
	"github.com/pairstream/pairstream/internal/console"
	"github.com/pairstream/pairstream/internal/replay"
)

func newCompareCommand() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use:   "compare MANIFEST MANIFEST...",
		Short: "show runs side by side: settings that differ, models, evaluations, false negatives, connections, losses",
		Long: "Compares runs by the manifests that `pairstream run-manifest` has written. It needs neither their log nor Kafka. The\n" +
			"first run is what the others are compared with. --html writes a page with their curves over one another.",
		Args: wantArgs(2, runs.MostRuns),
		RunE: func(cmd *cobra.Command, paths []string) error {
			var list []runs.Run
			for i, name := range runs.Names(paths) {
				m, err := replay.ReadManifest(paths[i])
				if err != nil {
					return err
				}
				list = append(list, m.Run(name))
			}
			c, err := runs.Of(list)
			if err != nil {
				return err
			}
			if page == "" {
				return c.Print(cmd.OutOrStdout())
			}
			return writeComparison(cmd.OutOrStdout(), c, page)
		},
	}
	cmd.Flags().StringVar(&page, "html", "", "page to write, with curves; nothing else is printed then")
	return cmd
}

func writeComparison(out io.Writer, c *runs.Comparison, path string) error {
	err := atomicfile.Write(path, 0o644, func(w io.Writer) error { return console.WriteComparison(w, c, time.Now()) })
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return printPage(out, "comparison", path)
}
