package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/atomicfile"
	"github.com/pairstream/pairstream/internal/console"
	"github.com/pairstream/pairstream/internal/stream"
)

func newReportCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "write one page that shows a run: curves, before and after, false negatives, connections, examples",
		Args:  cobra.NoArgs,
	}
	looking(cmd, func(at look) error {
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
