package pages

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	runs "github.com/pairstream/pairstream/internal/operate/compare"

	"github.com/pairstream/pairstream/internal/base/atomicfile"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console"
)

// WriteReport updates the console's index, writes the report and prints its address.
func WriteReport(ctx context.Context, out io.Writer, log *stream.Log, s Settings, known console.Known, path string) error {
	err := withIndex(ctx, log, s, console.Options{Logger: slog.New(slog.DiscardHandler), Known: known}, func(o console.Options) error {
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

// WriteComparison writes the page that compares runs and prints its address.
func WriteComparison(out io.Writer, c *runs.Comparison, path string) error {
	err := atomicfile.Write(path, 0o644, func(w io.Writer) error { return console.WriteComparison(w, c, time.Now()) })
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return printPage(out, "comparison", path)
}
