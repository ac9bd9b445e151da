package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/producer"
	"github.com/pairstream/pairstream/internal/operate/rundir"
	"github.com/pairstream/pairstream/schemas"
)

func newProduceCommand() *cobra.Command {
	var o dataset.ProduceOptions
	var resume, dry bool
	var w producer.Watch
	var p producer.Pace
	cmd := &cobra.Command{
		Use: "produce " + tarsUse,
		Long: "Publishes every caption of every image of the tars (key.jpg/.jpeg/.png/.webp with key.txt and/or key.json) as a\n" +
			"pair. Images stay in the tars; the services must be able to read them (BUCKET_ROOTS). Entries that form no pair are\n" +
			"also published, so that the encoder counts them and sets them aside with a reason.\n\n" +
			"A URL names a tar in a store, or the tars below a prefix: s3://bucket/prefix/ or gs://bucket/prefix/. They are read in\n" +
			"place. Options of the store follow a question mark, or come from the root in BUCKET_ROOTS that contains the URL.\n\n" +
			"'list.json?images=FOLDER' is a list of image files, ALBEF's or Karpathy's; docs/ingest.md has its options.\n\n" +
			"The topic sources records how much of every tar is published. So an interrupted run continues where it has stopped, on\n" +
			"any machine, and a second run publishes only tars that are new or have changed.",
		Args: wantArgs(1, anyNumber),
	}
	f := cmd.Flags()
	f.IntVar(&o.HeldOut, "holdout", 0, "images to keep back for evaluation: those with the smallest ids")
	f.BoolVar(&o.Final, "final", false, "end every lane with a final seal, because no more pairs will follow")
	f.BoolVar(&resume, "resume", true, "leave out pairs that were published before; =false publishes all again")
	f.BoolVar(&dry, "dry-run", false, "publish nothing: count the pairs and show the first ten")
	f.Uint64Var(&o.Seed, "shuffle", 0, "publish in an order drawn from this seed; needs --buffer")
	f.IntVar(&o.Parallel, "parallel", 4, "tars that are read at the same time; the order of the pairs does not depend on it")
	f.IntVar(&o.Buffer, "buffer", 0, "pairs that --shuffle holds in memory to exchange them; 0: 100000")
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		paths = places(paths)
		if err := shuffling(&o, f.Changed("shuffle")); err != nil {
			return err
		}
		o.Anew = !resume
		o.Weights = p.Weights
		if err := w.Validate(o, dry); err != nil {
			return err
		}
		if err := p.Validate(paths); err != nil {
			return err
		}
		return runProduce(cmd, paths, o, dry, w, p)
	}
	f.BoolVar(&w.On, "watch", false, "continue to publish new tars until interrupted; of several watchers of a namespace one publishes")
	f.DurationVar(&w.Every, "interval", 30*time.Second, "with --watch, the time between two listings")
	f.StringVar(&w.Events, "events", "", "with --watch, the notifications of new objects: kafka:TOPIC, kafka://host:port/TOPIC, awssqs://..., gcppubsub://...")
	f.Float64Var(&p.Rate, "rate", 0, "limit of pairs a second; 0: none")
	f.Int64Var(&p.MaxLag, "max-lag", 0, "limit of pairs that the encoder has not processed, at which to wait for it; 0: none")
	f.IntSliceVar(&p.Weights, "weights", nil, "a number for each path, of tars to take from it in turn, such as 3,1; empty: one path after the other")
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

// producerTopics are all that a producer may see where brokers have access lists. A reader of pairs asks control for
// records that an operator has skipped.
var producerTopics = []schemas.Topic{schemas.Pairs, schemas.Sources, schemas.Control}

func runProduce(cmd *cobra.Command, paths []string, o dataset.ProduceOptions, dry bool, w producer.Watch, p producer.Pace) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	log, err := rundir.Connect(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	o.Progress = new(dataset.Progress)
	stop := producer.ShowProgress(cmd.ErrOrStderr(), o.Progress)
	defer stop()
	if dry {
		if err := log.CheckTopics(ctx, producerTopics...); err != nil {
			return err
		}
		sum, err := producer.Preview(ctx, log, paths, o, out)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "a dry run: nothing was published. Without --dry-run it would be:")
		producer.PrintSummary(out, sum)
		return nil
	}
	if err := log.EnsureTopics(ctx, producerTopics...); err != nil {
		return err
	}
	if w.On {
		return w.Keep(ctx, log, paths, o, p, out)
	}
	sum, err := producer.Publish(ctx, log, paths, o, nil, p)
	if err != nil {
		return err
	}
	producer.PrintSummary(out, sum)
	return nil
}
