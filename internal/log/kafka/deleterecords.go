package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// DeleteRecords deletes the records before an offset of a partition, as retention does. It is for tests and
// simulations: no stage deletes records, and it supports neither TLS nor SASL.
func DeleteRecords(ctx context.Context, brokers []string, topic string, partition int, offset int64) error {
	c := &Client{addr: kafka.TCP(brokers...), transport: &kafka.Transport{ClientID: clientID, MetadataTopics: []string{topic}}}
	defer c.Close()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = int32(partition), offset
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 10_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{part}}}
	resp, err := ask[*kmsg.DeleteRecordsResponse](ctx, c, &exchange{req: req, to: leaderOf(topic, partition), version: 1})
	if err == nil && resp.Topics[0].Partitions[0].ErrorCode != 0 {
		err = kafka.Error(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("deleting records before offset %d of %s, partition %d: %w", offset, topic, partition, err)
	}
	return nil
}

// DeleteTopics removes all topics of a namespace. It is for benchmarks, as DeleteRecords is for tests.
func DeleteTopics(ctx context.Context, brokers []string, namespace string) error {
	var names []string
	for _, t := range schemas.Catalogue() {
		names = append(names, t.Topic.Name(namespace))
	}
	transport := &kafka.Transport{ClientID: clientID}
	defer transport.CloseIdleConnections()
	resp, err := (&kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport}).DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: names})
	if err == nil {
		for _, e := range resp.Errors {
			if !errors.Is(e, kafka.UnknownTopicOrPartition) {
				err = errors.Join(err, e)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("deleting the topics of %s: %w", namespace, err)
	}
	return nil
}
