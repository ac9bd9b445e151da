package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/log/stream"
	runs "github.com/pairstream/pairstream/internal/operate/compare"
	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/operate/replay"
)

func newReportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:  "report",
		Args: cobra.NoArgs,
	}
	looking(cmd, func(at logCommand) error {
		s, err := consoleSettingsIn(at.dir)
		if err != nil {
			return err
		}
		return writeReport(at.Context(), at.OutOrStdout(), at.log, s, nil, out)
	})
	cmd.Flags().StringVar(&out, "out", "report.html", "file to write")
	return cmd
}

// writeReport brings the console's index up to date, writes the page and prints where it is.
func writeReport(ctx context.Context, out io.Writer, log *stream.Log, s consoleSettings, titles map[string]string, path string) error {
	err := withIndex(ctx, log, s, console.Options{Logger: slog.New(slog.DiscardHandler), Titles: titles}, func(o console.Options) error {
		if err := o.Index.Fill(ctx); err != nil {
			return err
		}
		return atomicfile.Write(path, 0o644, func(w io.Writer) error { return console.Report(ctx, w, o) })
	})
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return printPage(out, "report", path)
}

// printPage prints the address of a page that was written.
func printPage(out io.Writer, what, path string) error {
	whole, err := filepath.Abs(path)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s: file://%s\n", what, filepath.ToSlash(whole))
	}
	return err
}

func newCompareCommand() *cobra.Command {
	var page string
	cmd := &cobra.Command{
		Use: "compare MANIFEST MANIFEST...",
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
