// Command scored reads the scored mini-batches of one lane and prints the connections in them, a line of JSON each:
// image and text pairs that were hard negatives, and that the connection discriminator (Con-D) took for matches.
//
// It uses public packages alone: schemas for the records and segmentio/kafka-go for the log.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// connection is one line of output.
type connection struct {
	Group       string  `json:"group"`
	Epoch       int32   `json:"epoch"`
	Image       string  `json:"image"` // object and offset
	Caption     string  `json:"caption"`
	Text        string  `json:"text"` // of another pair
	Probability float32 `json:"probability"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scored:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("scored [flags]", flag.ContinueOnError)
	broker := flags.String("broker", "localhost:9092", "host:port of a broker")
	namespace := flags.String("namespace", "", "prefix of the topics")
	lane := flags.Int("lane", 0, "lane to read, from its start to the final seal")
	above := flags.Float64("above", 0.8, "least probability of a connection (ECM_HIGH)")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{*broker}, Topic: schemas.Scored.Name(*namespace), Partition: *lane,
		MaxBytes: 32 << 20, MaxWait: 250 * time.Millisecond,
	})
	lines := json.NewEncoder(out)
	err = read(ctx, reader, func(batch *schemas.ScoredBatch) error {
		for _, c := range connections(batch, float32(*above)) {
			if err := lines.Encode(c); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, reader.Close())
}

// read hands every scored batch of a lane to use, once and in order, until the final seal.
func read(ctx context.Context, reader *kafka.Reader, use func(*schemas.ScoredBatch) error) error {
	expected := int64(0)
	for {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return fmt.Errorf("reading %s, lane %d: %w", reader.Config().Topic, reader.Config().Partition, err)
		}
		seq, err := strconv.ParseInt(header(m, schemas.HeaderSeq), 10, 64)
		switch {
		case err != nil:
			continue // no stage wrote this
		case seq < expected:
			continue // written again after a crash: the same record
		case seq > expected:
			return fmt.Errorf("reading %s, lane %d: records %d to %d are missing", m.Topic, m.Partition, expected, seq-1)
		}
		expected++
		record, err := schemas.Unmarshal(header(m, schemas.HeaderSchema), m.Value)
		if err != nil {
			return fmt.Errorf("decoding %s, lane %d, offset %d: %w", m.Topic, m.Partition, m.Offset, err)
		}
		switch r := record.(type) {
		case *schemas.ScoredBatch:
			if err := use(r); err != nil {
				return err
			}
		case *schemas.Seal:
			if r.Final {
				return nil
			}
		}
	}
}

// connections lists the candidates of a batch's images that Con-D took for matches. Row i of I2T has the samples whose
// texts are the hardest for image i; -1 means that there is none.
func connections(b *schemas.ScoredBatch, above float32) (found []connection) {
	for k, candidate := range b.I2T {
		if candidate < 0 || b.ProbI2T[k] <= above {
			continue
		}
		anchor := b.Samples[k/int(b.M)]
		found = append(found, connection{
			Group: b.Group.String(), Epoch: b.Epoch, Image: fmt.Sprintf("%s@%d", anchor.Image.URI, anchor.Image.Offset),
			Caption: anchor.Text, Text: b.Samples[candidate].Text, Probability: b.ProbI2T[k],
		})
	}
	return found
}

// header returns the value of a header, or "".
func header(m kafka.Message, key string) string {
	for _, h := range m.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}
