package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const operateTimeout = 10_000 // milliseconds

// with calls do with a client, and closes it.
func with(brokers []string, do func(*kgo.Client) error, opts ...kgo.Opt) error {
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	defer client.Close()
	return do(client)
}

// DeleteTopic deletes a topic, and waits until every broker has forgotten it.
func DeleteTopic(ctx context.Context, brokers []string, topic string) error {
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &topic
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames, req.Topics = operateTimeout, []string{topic}, append(req.Topics, t)
	return with(brokers, func(client *kgo.Client) error {
		found, err := describeAt(ctx, client, topic)
		if err != nil {
			return err
		}
		resp, err := req.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		}
		if err != nil || found.TopicID == [16]byte{} {
			return err
		}
		return awaitForgotten(ctx, client, topic, found.TopicID)
	})
}

// DeleteTopics deletes all topics but those of the cluster itself. It does not wait until every broker has forgotten
// them.
func DeleteTopics(ctx context.Context, brokers []string) error {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = operateTimeout
	return with(brokers, func(client *kgo.Client) error {
		found, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("asking for all topics: %w", err)
		}
		for i := range found.Topics {
			if name := found.Topics[i].Topic; !found.Topics[i].IsInternal {
				t := kmsg.NewDeleteTopicsRequestTopic()
				t.Topic = name
				req.TopicNames, req.Topics = append(req.TopicNames, *name), append(req.Topics, t)
			}
		}
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("deleting all topics: %w", err)
		}
		for i := range resp.Topics {
			if err := kerr.ErrorForCode(resp.Topics[i].ErrorCode); err != nil {
				return fmt.Errorf("deleting topic %s: %w", *resp.Topics[i].Topic, err)
			}
		}
		return nil
	})
}

// awaitForgotten waits until no broker knows the topic with an id. They learn of its end one after the other, and one
// that has not would say that the topic need not be created again.
func awaitForgotten(ctx context.Context, client *kgo.Client, topic string, id [16]byte) error {
	for _, broker := range client.DiscoveredBrokers() {
		for {
			is, err := describeAt(ctx, broker, topic)
			if err != nil {
				return err
			}
			if is.TopicID != id {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("waiting until every broker forgets topic %s: %w", topic, ctx.Err())
			case <-time.After(askPause):
			}
		}
	}
	return nil
}

// requester is a client, or one of its brokers.
type requester interface {
	Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
}

// describeAt asks about one topic.
func describeAt(ctx context.Context, at requester, topic string) (found kmsg.MetadataResponseTopic, err error) {
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = append(req.Topics, t)
	resp, err := at.Request(ctx, req)
	if err != nil {
		return found, fmt.Errorf("asking for topic %s: %w", topic, err)
	}
	return resp.(*kmsg.MetadataResponse).Topics[0], nil
}

// GrowTopic gives a topic more partitions. One that has as many stays as it is.
func GrowTopic(ctx context.Context, brokers []string, topic string, partitions int) error {
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, int32(partitions)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis, req.Topics = operateTimeout, append(req.Topics, t)
	return with(brokers, func(client *kgo.Client) error {
		resp, err := req.RequestWith(ctx, client)
		if err == nil {
			err = kerr.ErrorForCode(resp.Topics[0].ErrorCode)
		}
		if errors.Is(err, kerr.InvalidPartitions) {
			return nil
		}
		return err
	})
}

// Message is a record as it lies in a partition.
type Message struct {
	Topic     string
	Partition int
	Offset    int64
	Value     []byte
	Headers   []MessageHeader
}

// MessageHeader is one header of a message.
type MessageHeader struct {
	Key   string
	Value []byte
}

// WriteMessage writes a message with its headers, and waits for the ack.
func WriteMessage(ctx context.Context, brokers []string, m Message) error {
	rec := &kgo.Record{Topic: m.Topic, Partition: int32(m.Partition), Value: m.Value}
	for _, h := range m.Headers {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return with(brokers, func(client *kgo.Client) error { return client.ProduceSync(ctx, rec).FirstErr() })
}

// Span is a part of a partition: the offsets from From up to but not including End.
type Span struct {
	Topic     string
	Partition int
	From, End int64
}

// ReadSpans calls each with every message of some spans, in the order of each partition. It waits until it has them
// all.
func ReadSpans(ctx context.Context, brokers []string, spans []Span, each func(Message)) error {
	type place struct {
		topic     string
		partition int32
	}
	from, left := make(map[string]map[int32]kgo.Offset), make(map[place]int64)
	for _, s := range spans {
		if s.From >= s.End {
			continue
		}
		if from[s.Topic] == nil {
			from[s.Topic] = make(map[int32]kgo.Offset)
		}
		from[s.Topic][int32(s.Partition)] = kgo.NewOffset().At(s.From)
		left[place{s.Topic, int32(s.Partition)}] = s.End
	}
	if len(left) == 0 {
		return nil
	}
	return with(brokers, func(client *kgo.Client) error {
		for len(left) > 0 {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				return fmt.Errorf("reading %d partitions: %w", len(left), err)
			}
			fetches.EachRecord(func(r *kgo.Record) {
				at := place{r.Topic, r.Partition}
				end, ok := left[at]
				if !ok || r.Offset >= end {
					return
				}
				m := Message{Topic: r.Topic, Partition: int(r.Partition), Offset: r.Offset, Value: r.Value}
				for _, h := range r.Headers {
					m.Headers = append(m.Headers, MessageHeader{h.Key, h.Value})
				}
				if each(m); r.Offset == end-1 {
					delete(left, at)
				}
			})
		}
		return nil
	}, kgo.ConsumePartitions(from), kgo.FetchMaxWait(50*time.Millisecond))
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
	found, err := describeAt(ctx, client, topic)
	if err != nil {
		return 0, err
	}
	for _, p := range found.Partitions {
		if int(p.Partition) == partition && p.ErrorCode == 0 {
			return int(p.Leader), nil
		}
	}
	return 0, fmt.Errorf("asking for the leader of %s, partition %d: there is none", topic, partition)
}
