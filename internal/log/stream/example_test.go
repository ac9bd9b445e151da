package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// openLog starts an embedded broker in memory, and opens a log of one lane on it.
func openLog(ctx context.Context) (l *stream.Log, end func()) {
	broker, err := broker.Start(broker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes = []string{broker.Addr()}, 1
	l, err = stream.Connect(ctx, cfg, stream.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := l.EnsureTopics(ctx); err != nil {
		log.Fatal(err)
	}
	return l, func() {
		l.Close()
		if err := broker.Close(); err != nil {
			log.Fatal(err)
		}
	}
}

// publish writes seals to pairs, as an operator does.
func publish(ctx context.Context, l *stream.Log, seals ...*schemas.Seal) {
	p := l.NewPublisher(stream.PublisherOptions{})
	for _, seal := range seals {
		if err := p.Publish(ctx, schemas.Pairs, 0, seal); err != nil {
			log.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		log.Fatal(err)
	}
}

// A producer publishes to a lane, and a reader sees every record once and in order.
func Example() {
	ctx := context.Background()
	l, end := openLog(ctx)
	defer end()
	publish(ctx, l, &schemas.Seal{Note: "the first day"}, &schemas.Seal{Note: "the second day"})

	reader := l.OpenReader(schemas.Pairs, 0, stream.Position{}, stream.ReaderOptions{})
	defer reader.Close()
	for range 2 {
		rec, err := reader.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(rec.Topic, rec.Lane, rec.Offset, value.(*schemas.Seal).Note)
	}
	// Output:
	// pairs 0 0 the first day
	// pairs 0 1 the second day
}

// relay is a stage that passes seals on. What it emits is a function of the records that it reads.
type relay struct{}

func (relay) Input() schemas.Topic { return schemas.Pairs }

func (relay) Process(_ context.Context, rec stream.Record, out stream.Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return stream.Poison(err) // it goes to dead-letters, and the stage goes on
	}
	return out.Emit(schemas.Embeddings, value, out.After(rec, nil))
}

func (relay) Flush(context.Context, stream.Output) error { return nil }

// Run takes lanes of the consumer group and drives a stage for each. It goes on where the stage's output ends.
func ExampleLog_Run() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, end := openLog(ctx)
	defer end()
	publish(ctx, l, &schemas.Seal{Note: "the first day"}, &schemas.Seal{Final: true, Note: "the last day"})

	done := make(chan error, 1)
	go func() {
		done <- l.Run(ctx, stream.StageSpec{
			Name: "relay", Inputs: []schemas.Topic{schemas.Pairs}, Outputs: []schemas.Topic{schemas.Embeddings},
			New: func(int, []byte) (stream.Stage, error) { return relay{}, nil },
		})
	}()
	reader := l.OpenReader(schemas.Embeddings, 0, stream.Position{}, stream.ReaderOptions{})
	defer reader.Close()
	for range 2 {
		rec, err := reader.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("seq", rec.Seq, value.(*schemas.Seal).Note)
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
	// Output:
	// seq 0 the first day
	// seq 1 the last day
}
