package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// readCommitted asks a broker to hold back records of open transactions, and to name the aborted ones.
const readCommitted = 1

// fetchRaw asks the leader of a lane for its batches from an offset on.
func (c *Client) fetchRaw(ctx context.Context, name string, lane int, offset, most int64) (*kmsg.FetchResponseTopicPartition, error) {
	part := kmsg.NewFetchRequestTopicPartition()
	part.Partition, part.FetchOffset, part.PartitionMaxBytes = int32(lane), offset, int32(most)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = int32(fetchWait.Milliseconds()), 1, int32(most), readCommitted
	req.Topics = []kmsg.FetchRequestTopic{{Topic: name, Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	resp, err := ask[*kmsg.FetchResponse](ctx, c, &exchange{req: req, to: leaderOf(name, lane)})
	switch {
	case err != nil:
		return nil, err
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

const (
	requestVersion = 6 // place of the version in a request
	leastProduce   = 3 // the first version of produce requests whose batches have headers
)

// appendProduce appends a produce request with one batch, in one piece and without its version. Up to the batch,
// Kafka's versions 3 to 8 are the same.
func appendProduce(dst []byte, name string, lane int, timeout time.Duration, batch Batch, at time.Time, codec kafka.Compression) ([]byte, error) {
	be, begin := binary.BigEndian, len(dst)
	dst = kbin.AppendInt16(append(dst, 0, 0, 0, 0), int16(kmsg.Produce))
	dst = append(dst, 0, 0, 0, 0, 0, 0) // the version, and the number
	dst = kbin.AppendString(dst, clientID)
	dst = kbin.AppendInt16(dst, -1) // no transaction
	dst = kbin.AppendInt16(dst, -1) // acks from all in-sync replicas
	dst = kbin.AppendInt32(dst, int32(timeout.Milliseconds()))
	dst = kbin.AppendArrayLen(dst, 1)
	dst = kbin.AppendString(dst, name)
	dst = kbin.AppendArrayLen(dst, 1)
	dst = kbin.AppendInt32(dst, int32(lane))
	head := len(dst) + 4
	dst, err := appendBatch(append(dst, 0, 0, 0, 0), batch, at, codec)
	be.PutUint32(dst[head-4:], uint32(len(dst)-head))
	be.PutUint32(dst[begin:], uint32(len(dst)-begin-4))
	return dst, err
}
