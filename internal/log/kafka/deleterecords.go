package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// DeleteRecords removes what lies before an offset of a partition, as retention does. kafka-go has no call for it. It is
// for tests and simulations: no stage deletes records, and the brokers must do without TLS and SASL.
func DeleteRecords(ctx context.Context, brokers []string, topic string, partition int, offset int64) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = int32(partition), offset
	of := kmsg.NewDeleteRecordsRequestTopic()
	of.Topic, of.Partitions = topic, append(of.Partitions, part)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, of), 10_000
	resp, err := req.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("deleting what lies before offset %d of %s, partition %d: %w", offset, topic, partition, err)
	}
	return nil
}

// DeleteTopics removes all topics of a namespace. It is for benchmarks, as DeleteRecords is for tests.
func DeleteTopics(ctx context.Context, brokers []string, namespace string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return err
	}
	defer client.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10_000
	for _, t := range schemas.Catalogue() {
		name := t.Topic.Name(namespace)
		of := kmsg.NewDeleteTopicsRequestTopic()
		of.Topic = &name
		req.Topics, req.TopicNames = append(req.Topics, of), append(req.TopicNames, name)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("deleting the topics of %s: %w", namespace, err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("deleting the topics of %s: %w", namespace, err)
		}
	}
	return nil
}
