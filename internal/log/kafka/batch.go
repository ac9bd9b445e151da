package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/schemas"
)

// Any client with the right to write to `pairs` can send any bytes as a batch. These bounds hold whatever a batch
// claims.
const (
	MaxRecordHeaders = 64
	MaxHeaderBytes   = 64 << 10 // names and values of a record's headers
	maxDecodedBytes  = 8 << 20  // of records from one fetch, bookkeeping counted; a single record may be larger
	leastRecordBytes = 7        // a record without key, value and headers
	headerRoom       = 192      // headers of records of one batch that share an array
)

// A batch begins with 61 bytes. These are the offsets of some of its fields.
const (
	batchHead       = 61
	batchLength     = 8
	batchMagic      = 16
	batchCRC        = 17
	batchAttributes = 21
)

// Bits of a batch's attributes.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransaction   = 0x10
	attrControl       = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	// ErrBatch marks bytes that are no batch.
	ErrBatch = errors.New("broken batch")
	errSum   = errors.New("its checksum does not match")
)

// batchDecoder decodes the batches that a fetch has returned.
type batchDecoder struct {
	topic   schemas.Topic
	lane    int
	limit   int   // most bytes that a batch may have when it is decompressed
	offset  int64 // of the next wanted record
	trusted bool  // decode a batch despite a wrong checksum: it was read often enough
	aborted []kmsg.FetchResponseTopicPartitionAbortedTransaction
	open    map[int64]bool // producers whose transaction is open here and will be aborted
	records []Record
	bytes   int64 // in records
}

// decode reads batches to the end, or until it has many records. It always gets past the first batch, or past some of
// its records. The last batch of an answer may be cut.
func (d *batchDecoder) decode(raw []byte) error {
	slices.SortFunc(d.aborted, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return int(a.FirstOffset - b.FirstOffset)
	})
	d.open = make(map[int64]bool)
	for len(raw) >= batchHead && d.bytes < maxDecodedBytes {
		size := int64(int32(binary.BigEndian.Uint32(raw[batchLength:]))) + batchLength + 4
		switch {
		case raw[batchMagic] != 2:
			return fmt.Errorf("%w: format %d, want 2", ErrBatch, raw[batchMagic])
		case size < batchHead:
			return fmt.Errorf("%w: its length is %d", ErrBatch, size)
		case size > int64(len(raw)):
			return nil
		}
		if err := d.batch(raw[:size]); err != nil {
			return err
		}
		raw = raw[size:]
	}
	return nil
}

// batch reads one batch. It turns an unreadable batch into one record that says so, and loses only that batch's
// records.
func (d *batchDecoder) batch(raw []byte) error {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(raw); err != nil {
		return fmt.Errorf("%w: %w", ErrBatch, err)
	}
	last := b.FirstOffset + int64(b.LastOffsetDelta)
	if last < d.offset {
		return nil
	}
	if last < b.FirstOffset {
		return fmt.Errorf("%w: it begins at offset %d and ends at %d", ErrBatch, b.FirstOffset, last)
	}
	if d.skips(b.Attributes, last, b.ProducerID) {
		d.offset = last + 1
		return nil
	}
	var data []byte
	err := checkSum(raw)
	if err != nil && !d.trusted {
		return fmt.Errorf("%w: offset %d: %w", ErrTransient, b.FirstOffset, err) // it may have changed on its way
	}
	if err == nil {
		data, err = decompress(kafka.Compression(b.Attributes&attrCodec), b.Records, d.limit)
	}
	switch {
	case errors.Is(err, errSum):
		err = fmt.Errorf("broken batch: %w", err)
	case errors.Is(err, errTooLarge):
		err = fmt.Errorf("oversized batch: its records have more than %d bytes when they are decompressed", d.limit)
	case err != nil:
		err = fmt.Errorf("broken batch: decompressing: %w", err)
	}
	c := recordCursor{rest: data, first: b.FirstOffset, time: b.FirstTimestamp}
	if b.Attributes&attrLogAppendTime != 0 {
		c.time, c.fixed = b.MaxTimestamp, true
	}
	return d.recordsOf(&c, b.NumRecords, last, err)
}

func checkSum(b []byte) error {
	if binary.BigEndian.Uint32(b[batchCRC:]) != crc32.Checksum(b[batchAttributes:], castagnoli) {
		return errSum
	}
	return nil
}

// skips reports whether a batch was not committed or has no records, and follows the transactions.
func (d *batchDecoder) skips(attributes int16, last, producer int64) bool {
	for len(d.aborted) > 0 && d.aborted[0].FirstOffset <= last {
		d.open[d.aborted[0].ProducerID] = true
		d.aborted = d.aborted[1:]
	}
	if attributes&attrControl != 0 {
		delete(d.open, producer) // its transaction ends here, whichever way
		return true
	}
	return attributes&attrTransaction != 0 && d.open[producer]
}

// recordsOf takes the wanted records of a batch. It makes one record, with the reason, of an unreadable rest of the
// batch. The stage sets that record aside, and the lane continues after it.
func (d *batchDecoder) recordsOf(c *recordCursor, count int32, last int64, failed error) error {
	for n := int32(0); n < count && d.bytes < maxDecodedBytes; n++ {
		r := Record{Topic: d.topic, Lane: d.lane, Seq: -1}
		if err := c.next(&r); err != nil {
			if failed == nil {
				failed = fmt.Errorf("broken batch: record %d of %d: %w", n, count, err)
			}
			break
		}
		if r.Offset < d.offset { // a batch may start before the requested offset
			continue
		}
		if r.Offset > last {
			failed = fmt.Errorf("broken batch: record %d of %d lies behind its end", n, count)
			break
		}
		d.take(r)
	}
	if d.bytes >= maxDecodedBytes && d.offset <= last {
		return nil // the rest comes with the next fetch
	}
	if failed != nil && d.offset <= last {
		d.take(Record{
			Topic: d.topic, Lane: d.lane, Seq: -1, Offset: d.offset, Time: time.UnixMilli(c.time),
			Unreadable: fmt.Errorf("%w (offsets %d to %d)", failed, d.offset, last),
		})
	}
	d.offset = max(d.offset, last+1)
	return nil
}

func (d *batchDecoder) take(r Record) {
	if r.Unreadable != nil { // without the rest of its batch, which does not count
		r.Key, r.Value = slices.Clone(r.Key), slices.Clone(r.Value)
	}
	d.records = append(d.records, r)
	d.bytes += r.size()
	d.offset = r.Offset + 1
}

// recordCursor reads the records of a batch, one after the other. Values share memory with the batch.
type recordCursor struct {
	rest  []byte
	first int64 // offset of the batch
	time  int64 // milliseconds
	fixed bool  // the time is the broker's, and all records have it

	headers []Header // room for those of the next records
	schema  string   // of the last record
}

var errCut = errors.New("cut short")

// next reads a record into r. It drops the headers of a record that has too many, and says so.
func (c *recordCursor) next(r *Record) error {
	all := kbin.Reader{Src: c.rest}
	f := kbin.Reader{Src: all.VarintBytes()}
	if len(f.Src) < leastRecordBytes-1 {
		return errCut
	}
	c.rest = all.Src
	f.Int8() // the attributes, which have no meaning
	at := c.time
	if delta := f.Varlong(); !c.fixed {
		at += delta
	}
	r.Offset, r.Time = c.first+int64(f.Varint()), time.UnixMilli(at)
	r.Key, r.Value = f.VarintBytes(), f.VarintBytes()
	if !c.readHeaders(r, &f) || !f.Ok() {
		return errCut
	}
	return nil
}

// readHeaders reads the headers of a record into the cursor's room, and makes new room when that is full. It reports
// whether there can be as many as are announced.
func (c *recordCursor) readHeaders(r *Record, f *kbin.Reader) bool {
	n := int(f.Varint())
	size := len(f.Src)
	switch {
	case n < 0 || n > size/2:
		return false
	case n > MaxRecordHeaders || size > MaxHeaderBytes:
		r.Unreadable = fmt.Errorf("oversized headers: %d of %d bytes, want at most %d of %d", n, size, MaxRecordHeaders, MaxHeaderBytes)
		return true
	case n == 0:
		return true
	}
	if cap(c.headers)-len(c.headers) < n {
		c.headers = make([]Header, 0, max(n, headerRoom))
	}
	from := len(c.headers)
	for range n {
		like := ""
		if at := len(c.headers) - n; at >= 0 {
			like = c.headers[at].Key
		}
		c.headers = append(c.headers, Header{Key: known(f.VarintBytes(), like), Value: f.VarintBytes()})
	}
	r.Headers = c.headers[from:len(c.headers):len(c.headers)]
	schema, _ := r.Header(schemas.HeaderSchema)
	c.schema = known(schema, c.schema)
	r.Schema = c.schema
	return true
}

// known returns a string of the bytes. It returns like if that is equal, so the names of headers and schemas that every
// record has take no memory.
func known(b []byte, like string) string {
	if string(b) == like {
		return like
	}
	if s, ok := knownNames[string(b)]; ok {
		return s
	}
	return string(b)
}

var knownNames = func() map[string]string {
	names := map[string]string{}
	for _, s := range []string{
		schemas.HeaderSchema, schemas.HeaderSeq, schemas.HeaderSource, schemas.SchemaPair, schemas.SchemaEmbedding, schemas.SchemaNeighborChunk,
		schemas.SchemaGroup, schemas.SchemaBatch, schemas.SchemaScoredBatch, schemas.SchemaFeatureBlock, schemas.SchemaProgress,
	} {
		names[s] = s
	}
	return names
}()
