package kafkatest

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Write writes a message without any of pairstream's headers, as a foreign program would, and waits for the ack.
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

// WriteBatch writes a batch as it is, whatever its bytes say, to the leader of a partition. If the broker refuses it,
// WriteBatch returns the refusal.
func WriteBatch(ctx context.Context, brokers []string, topic string, partition int, batch []byte) error {
	// This is the last version of the request that names topics and needs no ids.
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MaxVersions(kversion.V2_8_0()))
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer client.Close()
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = int32(partition), batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis, request.Topics = -1, 30_000, append(request.Topics, t)
	leader, err := leaderOf(ctx, client, topic, partition)
	if err != nil {
		return err
	}
	response, err := client.Broker(leader).RetriableRequest(ctx, request)
	if err == nil {
		err = kerr.ErrorForCode(response.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("writing a batch of %d bytes to %s, partition %d: %w", len(batch), topic, partition, err)
	}
	return nil
}

// leaderOf asks which broker leads a partition.
func leaderOf(ctx context.Context, client *kgo.Client, topic string, partition int) (int, error) {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = append(request.Topics, t)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return 0, fmt.Errorf("asking for the leader of %s, partition %d: %w", topic, partition, err)
	}
	for _, p := range response.Topics[0].Partitions {
		if int(p.Partition) == partition && p.ErrorCode == 0 {
			return int(p.Leader), nil
		}
	}
	return 0, fmt.Errorf("asking for the leader of %s, partition %d: there is none", topic, partition)
}
