package stream

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// The decoder of kafka-go trusts what a batch says of itself. It allocates as many records and headers as announced,
// and decompresses without a bound. It also hides the producer, without which aborted transactions cannot be told. So
// this package takes over the answers to fetch requests with their batches as bytes, and decodes them in batch.go.
func init() { protocol.Register(&fetch.Request{}, &fetchResponse{}) }

// fetchResponse is fetch.Response with undecoded records.
type fetchResponse struct {
	ThrottleTimeMs int32                `kafka:"min=v1,max=v11"`
	ErrorCode      int16                `kafka:"min=v7,max=v11"`
	SessionID      int32                `kafka:"min=v7,max=v11"`
	Topics         []fetchResponseTopic `kafka:"min=v0,max=v11"`
}

// ApiKey implements protocol.Message.
func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch }

type fetchResponseTopic struct {
	Topic      string                   `kafka:"min=v0,max=v11"`
	Partitions []fetchResponsePartition `kafka:"min=v0,max=v11"`
}

type fetchResponsePartition struct {
	Partition            int32                       `kafka:"min=v0,max=v11"`
	ErrorCode            int16                       `kafka:"min=v0,max=v11"`
	HighWatermark        int64                       `kafka:"min=v0,max=v11"`
	LastStableOffset     int64                       `kafka:"min=v4,max=v11"`
	LogStartOffset       int64                       `kafka:"min=v5,max=v11"`
	AbortedTransactions  []fetch.ResponseTransaction `kafka:"min=v4,max=v11"`
	PreferredReadReplica int32                       `kafka:"min=v11,max=v11"`
	Records              []byte                      `kafka:"min=v0,max=v11,nullable"`
}

// readCommitted asks a broker to keep back what belongs to an open transaction, and to name the aborted ones.
const readCommitted = 1

// fetchRaw asks the leader of a lane for its batches from an offset on.
func (l *Log) fetchRaw(ctx context.Context, name string, lane int, offset, most int64) (*fetchResponsePartition, error) {
	m, err := l.transport.RoundTrip(ctx, l.addr, &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(fetchWait.Milliseconds()), MinBytes: 1, MaxBytes: int32(most),
		IsolationLevel: readCommitted, SessionID: -1, SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: name, Partitions: []fetch.RequestPartition{{
			Partition: int32(lane), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: int32(most),
		}}}},
	})
	if err != nil {
		return nil, err
	}
	resp, ok := m.(*fetchResponse)
	switch {
	case !ok:
		return nil, fmt.Errorf("answer to a fetch is a %T", m)
	case resp.ErrorCode != 0:
		return nil, kafka.Error(resp.ErrorCode)
	case len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1:
		return nil, fmt.Errorf("answer to a fetch of %s has %d topics: %w", name, len(resp.Topics), kafka.UnknownTopicOrPartition)
	}
	p := &resp.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return nil, kafka.Error(p.ErrorCode)
	}
	return p, nil
}
