package kafkatest

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Write writes a message without any of pairstream's headers, as something foreign would, and waits for the ack.
func Write(ctx context.Context, brokers []string, topic string, partition int, value []byte) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer client.Close()
	rec := &kgo.Record{Topic: topic, Partition: int32(partition), Value: value}
	if err := client.ProduceSync(ctx, rec).FirstErr(); err != nil {
		return fmt.Errorf("writing to %s, partition %d: %w", topic, partition, err)
	}
	return nil
}
