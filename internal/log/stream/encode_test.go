package stream

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestBatchesAsKafkaGoWritesThem compares a batch with that of the library.
func TestBatchesAsKafkaGoWritesThem(t *testing.T) {
	long := []byte(strings.Repeat("a long value; ", 3000))
	numbered := func(i int64) message {
		return sequenced(schemas.Embeddings, 1, i, Mark{Inputs: []TopicPosition{{schemas.Pairs, Position{Offset: i}}}, State: []byte{1}}, schemas.SchemaEmbedding, long[:i])
	}
	many := make([]message, 300)
	for i := range many {
		many[i] = numbered(int64(i))
	}
	at := time.UnixMilli(1_700_000_000_123)
	for name, batch := range map[string][]message{
		"one":                {numbered(7)},
		"many":               many,
		"no key, no value":   {{topic: schemas.Control}},
		"empty is not none":  {{key: []byte{}, value: []byte{}, headers: []header{{Key: "", Value: []byte{}}, {Key: "none"}}}},
		"a key and no value": {{key: []byte("key"), headers: []header{{Key: schemas.HeaderSchema, Value: []byte("x")}}}},
		"large":              {{key: long, value: long, headers: []header{{Key: string(long), Value: long}}}},
	} {
		for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
			t.Run(name+" "+codec.String(), func(t *testing.T) {
				got := must.Get(appendBatch([]byte("before"), batch, at, codec))(t)
				got, before := bytes.CutPrefix(got, []byte("before"))
				want := byKafkaGo(t, batch, at, codec)
				if !before || checkSum(got) != nil || int(binary.BigEndian.Uint32(got[batchLength:])) != len(got)-batchEpoch {
					t.Errorf("wrong checksum, or length %d", binary.BigEndian.Uint32(got[batchLength:]))
				}
				if codec != 0 { // where a compressor cuts depends on how much it is given at once
					got, want = unpacked(t, got, codec), unpacked(t, want, codec)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("got %d bytes, want %d:\n%.200x\n%.200x", len(got), len(want), got, want)
				}
			})
		}
	}
}

func byKafkaGo(t *testing.T, batch []message, at time.Time, codec kafka.Compression) []byte {
	t.Helper()
	var records []protocol.Record
	for _, m := range batch {
		records = append(records, protocol.Record{Time: at, Key: protocol.NewBytes(m.key), Value: protocol.NewBytes(m.value), Headers: m.headers})
	}
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Attributes(codec), Records: protocol.NewRecordReader(records...)}
	var out bytes.Buffer
	must.Get(set.WriteTo(&out))(t)
	return out.Bytes()[4:] // behind the length
}

// unpacked returns the head of a batch, without length and checksum, and its records.
func unpacked(t *testing.T, batch []byte, codec kafka.Compression) []byte {
	t.Helper()
	records := must.Get(decompress(codec, batch[batchHead:], 1<<20))(t)
	return slices.Concat(batch[:batchLength], batch[batchEpoch:batchCRC], batch[batchAttributes:batchHead], records)
}
