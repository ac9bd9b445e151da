// Package producer publishes the pairs of tars: once, or for as long as new tars come. `pairstream produce`, `up` and
// the demo use it.
//
// It reads paths of tars, and writes pairs to the topic of pairs, notes of the published sources, and a summary.
// [Publish] ends with the last tar. [Watch.Keep] continues: it lists the paths, and hears of new objects from Kafka,
// SQS or Pub/Sub. Of several watchers of one namespace, one publishes. [Pace] limits both.
//
// A pair is published once, whichever process is killed; package dataset explains how.
package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// previewed is the number of pairs that a dry run shows.
const previewed = 10

// Preview counts what Publish would send, and shows the first pairs.
func Preview(ctx context.Context, log *stream.Log, paths []string, o dataset.ProduceOptions, out io.Writer) (dataset.Summary, error) {
	shown := 0
	o.Lanes = log.Config().Lanes
	sum, _, err := dataset.Produce(ctx, paths, o, preview{onlog.New(log, nil), func(p *schemas.Pair) {
		if shown++; shown <= previewed {
			fmt.Fprintf(out, "%s  image %s, %d bytes at %d of %s\n  %q\n", p.ID, p.ImageID, p.Image.Size, p.Image.Offset, p.Image.URI, p.Caption)
		}
	}})
	return sum, err
}

// Publish sends the pairs of the tars to the log. counters may be nil.
func Publish(ctx context.Context, log *stream.Log, paths []string, o dataset.ProduceOptions, counters *stream.Counters, p Pace) (dataset.Summary, error) {
	o.Lanes = log.Config().Lanes
	publisher := log.NewPublisher(stream.PublisherOptions{Name: "producer", Counters: counters})
	sum, _, err := dataset.Produce(ctx, paths, o, p.over(onlog.New(log, publisher), log, publisher))
	return sum, errors.Join(err, ClosePublisher(publisher))
}

// preview implements [dataset.Ledger] for a dry run. It shows the first pairs.
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

// ClosePublisher waits for outstanding acks even when the command was interrupted.
func ClosePublisher(p *stream.Publisher) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.Close(ctx)
}
