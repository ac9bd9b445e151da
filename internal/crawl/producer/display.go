package producer

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
)

// The time between two lines of progress, and between two states of the line on a terminal.
const (
	progressEvery = 10 * time.Second
	redrawEvery   = 500 * time.Millisecond
)

// ShowProgress prints a line now and then until the returned function is called. On a terminal it redraws one line with
// a bar.
func ShowProgress(w io.Writer, p *dataset.Progress) (stop func()) {
	every, format := progressEvery, "%s\n"
	f, _ := w.(*os.File)
	terminal := f != nil && term.IsTerminal(int(f.Fd()))
	if terminal {
		every, format = redrawEvery, "\r\x1b[K%s"
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for began := time.Now(); ; {
			select {
			case <-quit:
				if terminal {
					fmt.Fprint(w, "\r\x1b[K")
				}
				return
			case <-tick.C:
				line := progressLine(p, time.Since(began))
				if terminal {
					line = progressBar(p) + line
				}
				fmt.Fprintf(w, format, line)
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// barCells is the width of the bar.
const barCells = 24

// progressBar draws the share of the tars that is read.
func progressBar(p *dataset.Progress) string {
	bytes, all := p.Bytes.Load(), p.AllBytes.Load()
	if all <= 0 || bytes > all {
		return ""
	}
	full := int(barCells * float64(bytes) / float64(all))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barCells-full) + "] "
}

// progressLine shows the average rate, and the time left at this rate.
func progressLine(p *dataset.Progress, took time.Duration) string {
	pairs, bytes, all := p.Pairs.Load(), p.Bytes.Load(), p.AllBytes.Load()
	line := fmt.Sprintf("%d pairs, %.0f/s", pairs, float64(pairs)/took.Seconds())
	if bytes > 0 && all >= bytes {
		left := time.Duration(float64(took) * float64(all-bytes) / float64(bytes))
		line += fmt.Sprintf("; %.1f %% of the tars, %s left", 100*float64(bytes)/float64(all), left.Round(time.Second))
	}
	return line
}

// PrintSummary prints how much was published, and how much was left out.
func PrintSummary(w io.Writer, sum dataset.Summary) {
	fmt.Fprintf(w, "published %d pairs of %d images from %d tars", sum.Pairs, max(0, sum.Scan.Examples-sum.HeldOutImages), sum.Scan.Tars)
	if sum.HeldOutImages > 0 {
		fmt.Fprintf(w, "; kept %d images with %d captions back for evaluation", sum.HeldOutImages, sum.HeldOutPairs)
	}
	fmt.Fprintln(w)
	if sum.Done > 0 {
		fmt.Fprintf(w, "  %6d  tars were published before, and have not changed\n", sum.Done)
	}
	if sum.Before > 0 {
		fmt.Fprintf(w, "  %6d  pairs were published before by a run that was cut short\n", sum.Before)
	}
	for _, uri := range sum.Changed {
		fmt.Fprintf(w, "          %s has changed since it was published: all of it was published again\n", uri)
	}
	for _, reason := range slices.Sorted(maps.Keys(sum.Scan.Problems)) {
		fmt.Fprintf(w, "  %6d  %s (goes to dead-letters)\n", sum.Scan.Problems[reason], reason)
	}
	PrintUnread(w, sum.Scan)
}

// PrintPassedOver prints the pairs that a command which reads tars itself has left out.
func PrintPassedOver(w io.Writer, totals shard.Totals) {
	for _, reason := range slices.Sorted(maps.Keys(totals.Problems)) {
		fmt.Fprintf(w, "passed over %d: %s\n", totals.Problems[reason], reason)
	}
	PrintUnread(w, totals)
}

// PrintUnread prints which files of tars belong to no pair.
func PrintUnread(w io.Writer, totals shard.Totals) {
	for _, line := range totals.UnreadLines() {
		fmt.Fprintf(w, "note: %s\n", line)
	}
}
