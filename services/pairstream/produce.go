package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

func newProduceCommand() *cobra.Command {
	var o dataset.ProduceOptions
	var resume, dry bool
	var w watching
	var p pace
	cmd := &cobra.Command{
		Use: "produce " + tarsUse,
		Long: "Publishes every caption of every image of the tars (key.jpg/.jpeg/.png/.webp with key.txt and/or key.json) as a\n" +
			"pair. Images stay in the tars; the services must be able to read them (BUCKET_ROOTS). Entries that are no pair are\n" +
			"published too, so that the encoder counts them and sets them aside with a reason.\n\n" +
			"A URL names a tar in a store, or the tars below a prefix: s3://bucket/prefix/ or gs://bucket/prefix/. They are read\n" +
			"where they lie. Options of the store follow behind a question mark, or come from the root of BUCKET_ROOTS above it.\n\n" +
			"The log notes how much of every tar is published (topic sources). So a run that was cut short goes on where it has\n" +
			"stopped, on any machine, and a second run publishes only what is new or has changed.",
		Args: wantArgs(1, anyNumber),
	}
	f := cmd.Flags()
	f.IntVar(&o.HeldOut, "holdout", 0, "images to keep back for evaluation: those with the smallest ids")
	f.BoolVar(&o.Final, "final", false, "end every lane with a final seal: the crawl is finite and this was all")
	f.BoolVar(&resume, "resume", true, "leave out what was published before; =false publishes everything again")
	f.BoolVar(&dry, "dry-run", false, "publish nothing: count the pairs and show the first ten")
	f.Uint64Var(&o.Seed, "shuffle", 0, "publish in an order drawn from this seed; needs --buffer")
	f.IntVar(&o.Parallel, "parallel", 4, "tars that are read at once; the order of the pairs does not depend on it")
	f.IntVar(&o.Buffer, "buffer", 0, "pairs that change places with --shuffle, held in memory; 0: 100000 with --shuffle")
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		paths = places(paths)
		if err := shuffling(&o, f.Changed("shuffle")); err != nil {
			return err
		}
		o.Anew = !resume
		o.Weights = p.weights
		if err := w.validate(o, dry); err != nil {
			return err
		}
		if err := p.validate(paths); err != nil {
			return err
		}
		return runProduce(cmd, paths, o, dry, w, p)
	}
	w.flags(cmd)
	p.flags(cmd)
	return cmd
}

// defaultBuffer is the number of pairs that change places.
const defaultBuffer = 100_000

// shuffling completes and checks the order of pairs.
func shuffling(o *dataset.ProduceOptions, shuffle bool) error {
	switch {
	case o.Parallel < 1:
		return fmt.Errorf("--parallel is %d, want at least 1", o.Parallel)
	case o.Buffer < 0:
		return fmt.Errorf("--buffer is %d, want at least 1", o.Buffer)
	case !shuffle && o.Buffer > 0:
		return fmt.Errorf("--buffer=%d has no effect without --shuffle SEED", o.Buffer)
	case shuffle && o.Buffer == 0:
		o.Buffer = defaultBuffer
	}
	return nil
}

// producerTopics are all that a producer may see where brokers have access lists. A reader of pairs asks control for records
// that an operator has skipped.
var producerTopics = []schemas.Topic{schemas.Pairs, schemas.Sources, schemas.Control}

func runProduce(cmd *cobra.Command, paths []string, o dataset.ProduceOptions, dry bool, w watching, p pace) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	log, err := connect(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	o.Progress = new(dataset.Progress)
	stop := showProgress(cmd.ErrOrStderr(), o.Progress)
	defer stop()
	if dry {
		if err := log.CheckTopics(ctx, producerTopics...); err != nil {
			return err
		}
		shown := 0
		o.Lanes = log.Config().Lanes
		sum, _, err := dataset.Produce(ctx, paths, o, preview{onlog.New(log, nil), func(p *schemas.Pair) {
			if shown++; shown <= previewed {
				fmt.Fprintf(out, "%s  image %s, %d bytes at %d of %s\n  %q\n", p.ID, p.ImageID, p.Image.Size, p.Image.Offset, p.Image.URI, p.Caption)
			}
		}})
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "a dry run: nothing was published. Without --dry-run it would be:")
		printSummary(out, sum)
		return nil
	}
	if err := log.EnsureTopics(ctx, producerTopics...); err != nil {
		return err
	}
	if w.on {
		return keepWatch(cmd, log, paths, o, w, p)
	}
	sum, err := publish(ctx, log, paths, o, nil, p)
	if err != nil {
		return err
	}
	printSummary(out, sum)
	return nil
}

// previewed is the number of pairs that a dry run shows.
const previewed = 10

// publish sends the pairs of the tars to the log. counters may be nil.
func publish(ctx context.Context, log *stream.Log, paths []string, o dataset.ProduceOptions, counters *stream.Counters, p pace) (dataset.Summary, error) {
	o.Lanes = log.Config().Lanes
	publisher := log.NewPublisher(stream.PublisherOptions{Name: "producer", Counters: counters})
	sum, _, err := dataset.Produce(ctx, paths, o, p.over(onlog.New(log, publisher), log, publisher))
	return sum, errors.Join(err, closePublisher(publisher))
}

// The time between two lines of progress, and between two states of the line on a terminal.
const (
	progressEvery = 10 * time.Second
	redrawEvery   = 500 * time.Millisecond
)

// showProgress prints a line now and then until the returned function is called. On a terminal it is one line with a bar,
// which is drawn anew.
func showProgress(w io.Writer, p *dataset.Progress) (stop func()) {
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

// progressBar draws how much of the tars is read.
func progressBar(p *dataset.Progress) string {
	bytes, all := p.Bytes.Load(), p.AllBytes.Load()
	if all <= 0 || bytes > all {
		return ""
	}
	full := int(barCells * float64(bytes) / float64(all))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", barCells-full) + "] "
}

// progressLine tells the rate so far, and the time that is left at this rate.
func progressLine(p *dataset.Progress, took time.Duration) string {
	pairs, bytes, all := p.Pairs.Load(), p.Bytes.Load(), p.AllBytes.Load()
	line := fmt.Sprintf("%d pairs, %.0f/s", pairs, float64(pairs)/took.Seconds())
	if bytes > 0 && all >= bytes {
		left := time.Duration(float64(took) * float64(all-bytes) / float64(bytes))
		line += fmt.Sprintf("; %.1f %% of the tars, %s left", 100*float64(bytes)/float64(all), left.Round(time.Second))
	}
	return line
}

func printSummary(w io.Writer, sum dataset.Summary) {
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
	printUnread(w, sum.Scan)
}

// printPassedOver says what a command that reads tars itself has left out.
func printPassedOver(w io.Writer, totals shard.Totals) {
	for _, reason := range slices.Sorted(maps.Keys(totals.Problems)) {
		fmt.Fprintf(w, "passed over %d: %s\n", totals.Problems[reason], reason)
	}
	printUnread(w, totals)
}

// printUnread says which files of tars are no part of a pair.
func printUnread(w io.Writer, totals shard.Totals) {
	for _, line := range totals.UnreadLines() {
		fmt.Fprintf(w, "note: %s\n", line)
	}
}

// preview implements [dataset.Ledger] for a look at what would be published. It shows the first pairs.
type preview struct {
	dataset.Ledger
	show func(*schemas.Pair)
}

// Note implements [dataset.Ledger].
func (preview) Note(context.Context, []dataset.SourceNote) error { return nil }

// Publish implements [dataset.Ledger].
func (p preview) Publish(_ context.Context, m dataset.Message) error {
	if r, err := schemas.Unmarshal(m.Schema, m.Value); err == nil {
		if pair, ok := r.(*schemas.Pair); ok {
			p.show(pair)
		}
	}
	return nil
}
