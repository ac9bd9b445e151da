package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
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
func (c *Client) fetchRaw(ctx context.Context, name string, lane int, offset, most int64) (*fetchResponsePartition, error) {
	m, err := c.transport.RoundTrip(ctx, c.addr, &fetch.Request{
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

// produceRequest writes itself in one piece, with one batch. kafka-go would copy it into pages and write each of them.
type produceRequest struct {
	rawproduce.Request        // where the batch goes, without the batch
	raw                []byte // all of the request, but for the version
	version            int16
}

// requestVersion is the place of the version in a request.
const requestVersion = 6

// encode makes the request. Up to the batch, Kafka's versions 3 to 8 are the same.
func (r *produceRequest) encode(dst []byte, batch Batch, at time.Time, codec kafka.Compression) (raw []byte, err error) {
	t, be := r.Topics[0], binary.BigEndian
	dst = be.AppendUint16(append(dst, 0, 0, 0, 0), uint16(protocol.Produce))
	dst = append(dst, 0, 0, 0, 0, 0, 0) // the version, and the number: a connection has one request at a time
	dst = append(be.AppendUint16(dst, uint16(len(clientID))), clientID...)
	dst = be.AppendUint16(dst, 1<<16-1) // no transaction
	dst = be.AppendUint16(dst, uint16(r.Acks))
	dst = be.AppendUint32(dst, uint32(r.Timeout))
	dst = be.AppendUint32(dst, 1)
	dst = append(be.AppendUint16(dst, uint16(len(t.Topic))), t.Topic...)
	dst = be.AppendUint32(dst, 1)
	dst = be.AppendUint32(dst, uint32(t.Partitions[0].Partition))
	head := len(dst) + 4
	r.raw, err = appendBatch(append(dst, 0, 0, 0, 0), batch, at, codec)
	be.PutUint32(r.raw[head-4:], uint32(len(r.raw)-head))
	be.PutUint32(r.raw, uint32(len(r.raw)-4))
	return r.raw, err
}

// Required implements [protocol.RawExchanger].
func (r *produceRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[protocol.Produce]
	return true
}

// RawExchange sends the request and reads the answer.
func (r *produceRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.version < 3 {
		return nil, fmt.Errorf("brokers take version %d of produce requests at most, want 3: use Kafka 0.11 or later: %w", r.version, kafka.UnsupportedVersion)
	}
	binary.BigEndian.PutUint16(r.raw[requestVersion:], uint16(r.version))
	if _, err := rw.Write(r.raw); err != nil {
		return nil, err
	}
	number, m, err := protocol.ReadResponse(rw, protocol.Produce, r.version)
	if err == nil && number != 0 {
		err = fmt.Errorf("answer has the number %d, want that of a produce request", number)
	}
	return m, err
}
