package broker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func startBroker(t *testing.T, o Options) *Broker {
	t.Helper()
	b := must.Get(Start(o))(t)
	t.Cleanup(func() { must.Check(t, b.Close()) })
	return b
}

// client is a client of another make than that of the stages.
type client struct{ *kgo.Client }

func dial(t *testing.T, b *Broker, opts ...kgo.Opt) client {
	t.Helper()
	opts = append([]kgo.Opt{kgo.SeedBrokers(b.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite()}, opts...)
	c := must.Get(kgo.NewClient(opts...))(t)
	t.Cleanup(c.Close)
	return client{c}
}

// create makes a topic of one partition.
func (c client) create(t *testing.T, topic string, configs map[string]string) {
	t.Helper()
	rt := kmsg.NewCreateTopicsRequestTopic()
	rt.Topic, rt.NumPartitions, rt.ReplicationFactor = topic, 1, 1
	for name, value := range configs {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = name, &value
		rt.Configs = append(rt.Configs, rc)
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics = append(req.Topics, rt)
	resp := must.Get(req.RequestWith(t.Context(), c))(t)
	if message := resp.Topics[0].ErrorMessage; message != nil {
		t.Fatalf("creating %s: %s", topic, *message)
	}
}

// put writes values to a topic and waits for their acks.
func (c client) put(t *testing.T, topic string, values ...string) {
	t.Helper()
	for _, value := range values {
		must.Do(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
	}
}

// values reads a topic from its start to its end.
func values(t *testing.T, b *Broker, topic string) []string {
	t.Helper()
	c := dial(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	end := c.end(t, topic)
	var out []string
	for next := int64(0); next < end; {
		fetches := c.PollFetches(t.Context())
		must.Do(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			out = append(out, string(r.Value))
			next = r.Offset + 1
		})
	}
	return out
}

// end returns the offset behind a topic's last record.
func (c client) end(t *testing.T, topic string) int64 {
	t.Helper()
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic, rt.Partitions = topic, append(rt.Partitions, rp)
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.Topics = -1, append(req.Topics, rt)
	resp := must.Get(req.RequestWith(t.Context(), c))(t)
	return resp.Topics[0].Partitions[0].Offset
}
