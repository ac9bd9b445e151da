package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/atomicfile"
	"github.com/pairstream/pairstream/internal/config"
	"github.com/pairstream/pairstream/internal/console"
	"github.com/pairstream/pairstream/internal/stream"
)

func newReportCommand() *cobra.Command {
	var dir, out string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "write one page that shows a run: curves, before and after, false negatives, connections, examples",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = looking(&dir, func(cmd *cobra.Command, log *stream.Log, _ []string) error {
		environ, err := environIn(dir)
		if err != nil {
			return err
		}
		s, err := config.Parse[consoleSettings](environ)
		if err != nil {
			return err
		}
		s.Console.Dir = consoleDir(environ, s.Console.Dir, dir)
		return writeReport(cmd.Context(), cmd.OutOrStdout(), log, s, nil, out)
	})
	cmd.Flags().StringVar(&out, "out", "report.html", "file to write")
	dataFlag(cmd, &dir)
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
	whole, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	_, err = fmt.Fprintf(out, "report: file://%s\n", filepath.ToSlash(whole))
	return err
}
