package kafka

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchRooms pools the memory of batches that were sent.
var batchRooms = sync.Pool{New: func() any { return new([]byte) }}

// appendBatch writes messages as a batch of Kafka's format 2, with one time for all. kafka-go writes the same bytes,
// but allocates several objects for every record.
func appendBatch(dst []byte, batch Batch, at time.Time, codec kafka.Compression) ([]byte, error) {
	size := int64(batchHead)
	for i := range batch.Len() {
		size += batch.Message(i).WireSize()
	}
	head := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(codec), LastOffsetDelta: int32(batch.Len() - 1),
		FirstTimestamp: at.UnixMilli(), MaxTimestamp: at.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(batch.Len()),
	}
	begin := len(dst)
	dst = head.AppendTo(slices.Grow(dst, int(size)))
	if codec == 0 {
		dst = appendRecords(dst, batch)
	} else {
		var packed bytes.Buffer
		w := codec.Codec().NewWriter(&packed)
		if _, err := w.Write(appendRecords(nil, batch)); err != nil {
			return dst, fmt.Errorf("compressing a batch: %w", err)
		}
		if err := w.Close(); err != nil {
			return dst, fmt.Errorf("compressing a batch: %w", err)
		}
		dst = append(dst, packed.Bytes()...)
	}
	b, be := dst[begin:], binary.BigEndian
	be.PutUint32(b[batchLength:], uint32(len(b)-batchLength-4))
	be.PutUint32(b[batchCRC:], crc32.Checksum(b[batchAttributes:], castagnoli))
	return dst, nil
}

func appendRecords(dst []byte, batch Batch) []byte {
	for i := range batch.Len() {
		m := batch.Message(i)
		length := 2 + kbin.VarintLen(int32(i)) + nullableSize(m.Key) + nullableSize(m.Value) + kbin.VarintLen(int32(len(m.Headers)))
		for _, h := range m.Headers {
			length += kbin.VarintLen(int32(len(h.Key))) + len(h.Key) + nullableSize(h.Value)
		}
		dst = kbin.AppendVarint(dst, int32(length))
		dst = append(dst, 0, 0) // no attributes; the time of the batch
		dst = kbin.AppendVarint(dst, int32(i))
		dst = kbin.AppendVarintBytes(dst, m.Key)
		dst = kbin.AppendVarintBytes(dst, m.Value)
		dst = kbin.AppendVarint(dst, int32(len(m.Headers)))
		for _, h := range m.Headers {
			dst = kbin.AppendVarintString(dst, h.Key)
			dst = kbin.AppendVarintBytes(dst, h.Value)
		}
	}
	return dst
}

// nullableSize returns the bytes that AppendVarintBytes writes.
func nullableSize(b []byte) int {
	if b == nil {
		return 1
	}
	return kbin.VarintLen(int32(len(b))) + len(b)
}
