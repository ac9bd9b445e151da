package main

import (
	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/pages"

	runs "github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/replay"
)

func newReportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:  "report",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		s, err := pages.SettingsIn(at.dir)
		if err != nil {
			return err
		}
		return pages.WriteReport(at.Context(), at.OutOrStdout(), at.log, s, console.Known{}, out)
	})
	cmd.Flags().StringVar(&out, "out", "report.html", "file to write")
	return cmd
}

func newCompareCommand() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use: "compare MANIFEST MANIFEST...",
		Long: "Compares runs with the first one, by the manifests that `pairstream run-manifest` has written. It needs neither their log\n" +
			"nor Kafka. --html writes a page with their curves in common plots.",
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
			return pages.WriteComparison(cmd.OutOrStdout(), c, page)
		},
	}
	cmd.Flags().StringVar(&page, "html", "", "page to write, with curves; nothing else is printed then")
	return cmd
}
