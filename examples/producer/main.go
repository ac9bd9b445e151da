// Command producer publishes one image-text pair to pairstream, as a crawler in Go would: inline, or by reference to an
// image that lies in a tar of a bucket.
//
// It uses public packages alone: schemas for the records and segmentio/kafka-go for the log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// target says where to publish.
type target struct {
	broker    string
	namespace string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "producer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("producer [flags] IMAGE CAPTION", flag.ContinueOnError)
	broker := flags.String("broker", "localhost:9092", "host:port of a broker")
	namespace := flags.String("namespace", "", "prefix of the topics")
	uri := flags.String("uri", "", "object that holds the image, such as s3://crawl/00000.tar; empty: the image is sent inline")
	offset := flags.Int64("offset", 0, "first byte of the image in that object")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("want a file with an image, and a caption")
	}
	encoded, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return err
	}
	pair := newPair(encoded, flags.Arg(1))
	if *uri == "" {
		pair.Inline = encoded
	} else {
		pair.Image = &schemas.ImageRef{URI: *uri, Offset: *offset, Size: int64(len(encoded))}
	}
	if err := publish(ctx, target{*broker, *namespace}, pair); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "published %s\n", pair.ID)
	return err
}

// newPair returns the pair of an encoded image and a caption, without the place of the image.
func newPair(encoded []byte, caption string) *schemas.Pair {
	image := schemas.NewImageID(encoded)
	return &schemas.Pair{
		ID: schemas.NewPairID(image, caption), ImageID: image, Caption: caption,
		Source: "examples/producer", CrawlTime: time.Now().UnixMilli(),
	}
}

// publish writes pairs to their lanes and returns when every in-sync replica has them.
//
// A writer repeats a request whose answer is lost, so a pair may be in the log twice. A group keeps the first.
func publish(ctx context.Context, to target, pairs ...*schemas.Pair) (err error) {
	writer := &kafka.Writer{
		Addr:         kafka.TCP(to.broker),
		Topic:        schemas.Pairs.Name(to.namespace),
		Balancer:     kafka.BalancerFunc(laneOf),
		RequiredAcks: kafka.RequireAll,
		BatchBytes:   22 << 20, // what the topic allows; an inline image may be large
		BatchTimeout: 5 * time.Millisecond,
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	messages := make([]kafka.Message, len(pairs))
	for i, p := range pairs {
		if err := p.Validate(); err != nil {
			return fmt.Errorf("checking pair %s: %w", p.ID, err)
		}
		value, err := schemas.Marshal(p)
		if err != nil {
			return fmt.Errorf("encoding pair %s: %w", p.ID, err)
		}
		messages[i] = kafka.Message{
			Value:      value,
			Headers:    []kafka.Header{{Key: schemas.HeaderSchema, Value: []byte(p.Schema())}},
			WriterData: p.ImageID,
		}
	}
	if err := writer.WriteMessages(ctx, messages...); err != nil {
		return fmt.Errorf("publishing %d pairs to %s: %w", len(pairs), writer.Topic, err)
	}
	return nil
}

// laneOf returns the partition of a pair, which follows from the id of the pair's image.
func laneOf(m kafka.Message, partitions ...int) int {
	image, _ := m.WriterData.(schemas.ImageID) // publish sets it
	return partitions[image.Lane(len(partitions))]
}
