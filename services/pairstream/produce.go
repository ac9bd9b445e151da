package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/dataset"
	"github.com/pairstream/pairstream/internal/shard"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

func newProduceCommand() *cobra.Command {
	var o dataset.ProduceOptions
	cmd := &cobra.Command{
		Use:   "produce DIR|TAR...",
		Short: "publish the pairs of WebDataset tars, by reference",
		Long: "Publishes every caption of every image of the tars (key.jpg/.jpeg/.png/.webp with key.txt and/or key.json) as a\n" +
			"pair. Images stay in the tars; the services must be able to read them (BUCKET_ROOTS). Entries that are no pair are\n" +
			"published too, so that the encoder counts them and sets them aside with a reason.",
		Args: wantArgs(1, anyNumber),
		RunE: func(cmd *cobra.Command, paths []string) error {
			log, err := connect(cmd.Context())
			if err != nil {
				return err
			}
			defer log.Close()
			if err := log.EnsureTopics(cmd.Context()); err != nil {
				return err
			}
			sum, err := publish(cmd.Context(), log, paths, o, nil)
			if err != nil {
				return err
			}
			printSummary(cmd.OutOrStdout(), sum)
			return nil
		},
	}
	cmd.Flags().IntVar(&o.HeldOut, "holdout", 0, "images to keep back for evaluation: those with the smallest ids")
	cmd.Flags().BoolVar(&o.Final, "final", false, "end every lane with a final seal: the crawl is finite and this was all")
	return cmd
}

// publish sends the pairs of the tars to the log. counters may be nil.
func publish(ctx context.Context, log *stream.Log, paths []string, o dataset.ProduceOptions, counters *stream.Counters) (dataset.Summary, error) {
	o.Lanes = log.Config().Lanes
	publisher := log.NewPublisher(stream.PublisherOptions{Name: "producer", Counters: counters})
	sum, _, err := dataset.Produce(ctx, paths, o, func(m dataset.Message) error {
		return publisher.PublishBytes(ctx, schemas.Pairs, m.Lane, m.Schema, m.Value)
	})
	return sum, errors.Join(err, closePublisher(publisher))
}

func printSummary(w io.Writer, sum dataset.Summary) {
	fmt.Fprintf(w, "published %d pairs of %d images from %d tars", sum.Pairs, sum.Scan.Examples-sum.HeldOutImages, sum.Scan.Tars)
	if sum.HeldOutImages > 0 {
		fmt.Fprintf(w, "; kept %d images with %d captions back for evaluation", sum.HeldOutImages, sum.HeldOutPairs)
	}
	fmt.Fprintln(w)
	for _, reason := range slices.Sorted(maps.Keys(sum.Scan.Problems)) {
		fmt.Fprintf(w, "  %6d  %s (goes to dead-letters)\n", sum.Scan.Problems[reason], reason)
	}
}

// printPassedOver says what a command that reads tars itself has left out.
func printPassedOver(w io.Writer, totals shard.Totals) {
	for _, reason := range slices.Sorted(maps.Keys(totals.Problems)) {
		fmt.Fprintf(w, "passed over %d: %s\n", totals.Problems[reason], reason)
	}
}
