package torture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// Codecs of a batch.
const (
	plain = 0
	gz    = 1
	snap  = 2
	lz    = 3
	zst   = 4
)

// batch is a batch of Kafka's record format 2 as a hostile producer makes it. What it says of itself need not be true.
type batch struct {
	codec byte
	count int32
	body  []byte

	flags       byte  // of the attributes: [brokersTime], [transaction], [control]
	first, last int64 // milliseconds
	producer    int64 // 0: none
}

// Flags of a batch, which only brokers set.
const (
	brokersTime = 0x08
	transaction = 0x10
	control     = 0x20
)

// bytes returns the batch with a correct checksum.
func (b batch) bytes() []byte {
	const (
		head, length, magic, crc, attributes = 61, 8, 16, 17, 21
		lastDelta, first, most               = 23, 27, 35
		producer, count                      = 43, 57
	)
	raw := make([]byte, head, head+len(b.body))
	binary.BigEndian.PutUint32(raw[length:], uint32(head-12+len(b.body)))
	raw[magic] = 2
	raw[attributes+1] = b.codec | b.flags
	binary.BigEndian.PutUint64(raw[first:], uint64(b.first))
	binary.BigEndian.PutUint64(raw[most:], uint64(b.last))
	binary.BigEndian.PutUint32(raw[lastDelta:], uint32(b.count-1))
	for i := producer; i < count; i++ {
		raw[i] = 0xff
	}
	if b.producer != 0 {
		binary.BigEndian.PutUint64(raw[producer:], uint64(b.producer))
		clear(raw[producer+8 : count])
	}
	binary.BigEndian.PutUint32(raw[count:], uint32(b.count))
	raw = append(raw, b.body...)
	binary.BigEndian.PutUint32(raw[crc:], crc32.Checksum(raw[attributes:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

// header is a header of a record.
type header struct {
	key   string
	value []byte
}

// record encodes a record; delta is its place in the batch. A record without value is a tombstone.
func record(delta int64, key, value []byte, headers ...header) []byte {
	bytesOf := func(b, data []byte) []byte { return append(binary.AppendVarint(b, int64(len(data))), data...) }
	body := binary.AppendVarint(binary.AppendVarint([]byte{0}, 0), delta)
	if key == nil {
		body = binary.AppendVarint(body, -1)
	} else {
		body = bytesOf(body, key)
	}
	if value == nil {
		body = binary.AppendVarint(body, -1)
	} else {
		body = bytesOf(body, value)
	}
	body = binary.AppendVarint(body, int64(len(headers)))
	for _, h := range headers {
		body = bytesOf(bytesOf(body, []byte(h.key)), h.value)
	}
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// zeros writes the length of a record of n bytes and then so many zeros.
func zeros(w io.Writer, n int64) {
	mustWrite(w, binary.AppendVarint(nil, n))
	block := make([]byte, 1<<20)
	for ; n > 0; n -= int64(len(block)) {
		mustWrite(w, block[:min(n, int64(len(block)))])
	}
}

func gzipped(fill func(io.Writer)) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	fill(w)
	mustClose(w)
	return out.Bytes()
}

func zstandard(fill func(io.Writer), opts ...zstd.EOption) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, opts...)
	if err != nil {
		panic(err) // the options are constants of this package
	}
	fill(w)
	mustClose(w)
	return out.Bytes()
}

// mustWrite and mustClose write to memory, which cannot fail.
func mustWrite(w io.Writer, b []byte) {
	if _, err := w.Write(b); err != nil {
		panic(err)
	}
}

func mustClose(c io.Closer) {
	if err := c.Close(); err != nil {
		panic(err)
	}
}
