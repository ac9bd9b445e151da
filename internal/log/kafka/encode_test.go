package kafka

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"strconv"
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
	numbered := func(i int64) Message {
		return Message{Value: long[:i], Headers: []Header{
			{Key: schemas.HeaderSchema, Value: []byte(schemas.SchemaEmbedding)}, {Key: schemas.HeaderSeq, Value: strconv.AppendInt(nil, i, 10)}, {Key: schemas.HeaderSource, Value: []byte{1, 0, 0}},
		}}
	}
	many := make(messages, 300)
	for i := range many {
		many[i] = numbered(int64(i))
	}
	at := time.UnixMilli(1_700_000_000_123)
	for name, batch := range map[string]messages{
		"one":                {numbered(7)},
		"many":               many,
		"no key, no value":   {{Topic: schemas.Control}},
		"empty is not none":  {{Key: []byte{}, Value: []byte{}, Headers: []Header{{Key: "", Value: []byte{}}, {Key: "none"}}}},
		"a key and no value": {{Key: []byte("key"), Headers: []Header{{Key: schemas.HeaderSchema, Value: []byte("x")}}}},
		"large":              {{Key: long, Value: long, Headers: []Header{{Key: string(long), Value: long}}}},
	} {
		for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
			t.Run(name+" "+codec.String(), func(t *testing.T) {
				got := must.Get(appendBatch([]byte("before"), batch, at, codec))(t)
				got, before := bytes.CutPrefix(got, []byte("before"))
				want := byKafkaGo(t, batch, at, codec)
				if !before || checkSum(got) != nil || int(binary.BigEndian.Uint32(got[batchLength:])) != len(got)-(batchLength+4) {
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

func byKafkaGo(t *testing.T, batch messages, at time.Time, codec kafka.Compression) []byte {
	t.Helper()
	var records []protocol.Record
	for _, m := range batch {
		r := protocol.Record{Time: at, Key: protocol.NewBytes(m.Key), Value: protocol.NewBytes(m.Value)}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, protocol.Header(h))
		}
		records = append(records, r)
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
	return slices.Concat(batch[:batchLength], batch[batchLength+4:batchCRC], batch[batchAttributes:batchHead], records)
}

// TestRefusedHeadersKeepNothing decodes batches whose headers are large and compressed. What is kept of them is what
// counts as bytes in flight.
func TestRefusedHeadersKeepNothing(t *testing.T) {
	one := must.Get(appendBatch(nil, messages{{Value: []byte("x"), Headers: []Header{{Key: "k", Value: make([]byte, 1900<<10)}}}}, time.Now(), kafka.Gzip))(t)
	const batches = 100
	var raw []byte
	for i := range uint64(batches) {
		binary.BigEndian.PutUint64(one, i)
		raw = append(raw, one...)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	d := batchDecoder{topic: schemas.Pairs, limit: 2 << 20}
	if err := d.decode(raw); err != nil || len(d.records) != batches {
		t.Fatalf("%d records, %v", len(d.records), err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 4<<20 {
		t.Errorf("%d records of %d bytes keep %d MiB", len(d.records), d.bytes, kept>>20)
	}
	for _, r := range d.records {
		if r.Unreadable == nil || len(r.Headers) > 0 {
			t.Fatalf("a record has %d headers, and is taken for one that can be read", len(r.Headers))
		}
	}
}
