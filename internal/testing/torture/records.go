package torture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/pairstream/pairstream/schemas"
)

// Record is what a stranger may write to the topic `pairs`. It is a batch that is not what it says, or a record that is
// not a good pair.
type Record struct {
	Name  string
	Batch func() []byte // of Kafka's record format 2
}

// Records lists the records. A broker may refuse some. None is a good pair.
func Records() []Record {
	var out []Record
	add := func(name string, b func() batch) {
		out = append(out, Record{name, func() []byte { return b().bytes() }})
	}
	for name, b := range batches() {
		add("batch: "+name, b)
	}
	for name, b := range furtherBatches() {
		add("batch: "+name, b)
	}
	for name, b := range flags() {
		add("batch: "+name, func() batch { return b })
	}
	for name, r := range headers() {
		add("headers: "+name, func() batch { return batch{count: 1, body: r()} })
	}
	for name, value := range values() {
		add("value: "+name, func() batch {
			return batch{count: 1, body: record(0, nil, value(), header{schemas.HeaderSchema, []byte(schemas.SchemaPair)})}
		})
	}
	slices.SortFunc(out, func(a, b Record) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Large returns a record of nearly the size that topics take, which is no pair. Each number gives another one.
func Large(n int) Record {
	value := append([]byte("\xc1"), bytes.Repeat(fmt.Appendf(nil, "%08d", n), 1_000_000/8)...)
	return Record{"large", func() []byte {
		return batch{count: 1, body: record(0, nil, value, header{schemas.HeaderSchema, []byte(schemas.SchemaPair)})}.bytes()
	}}
}

// batches returns batches that are hostile as batches.
func batches() map[string]func() batch {
	small := record(0, nil, []byte("inside"))
	noise := []byte("noise, noise, noise")
	return map[string]func() batch{
		"800 MB of zeros in zstd": func() batch {
			return batch{codec: zst, count: 1, body: zstandard(func(w io.Writer) { zeros(w, 800<<20) }, zstd.WithWindowSize(1<<20))}
		},
		"a window of 256 MB": func() batch {
			return batch{codec: zst, count: 1, body: zstandard(func(w io.Writer) { zeros(w, 40<<20) }, zstd.WithWindowSize(256<<20), zstd.WithSingleSegment(false))}
		},
		"40 MB in gzip": func() batch { return batch{codec: gz, count: 1, body: gzipped(func(w io.Writer) { zeros(w, 40<<20) })} },
		"4 GB of snappy": func() batch {
			return batch{codec: snap, count: 1, body: []byte("\xff\xff\xff\xff\x0f and that is all")}
		},
		"noise in gzip":     func() batch { return batch{codec: gz, count: 1, body: noise} },
		"noise in zstd":     func() batch { return batch{codec: zst, count: 1, body: noise} },
		"no records":        func() batch { return batch{codec: plain, count: 0, body: nil} },
		"a negative count":  func() batch { return batch{codec: plain, count: -1, body: small} },
		"a billion records": func() batch { return batch{codec: plain, count: 1 << 30, body: small} },
		"900 records missing": func() batch {
			return batch{codec: gz, count: 901, body: gzipped(func(w io.Writer) { mustWrite(w, small) })}
		},
		"a record of 1 TB":    func() batch { return batch{codec: plain, count: 1, body: binary.AppendVarint(nil, 1<<40)} },
		"an offset elsewhere": func() batch { return batch{codec: plain, count: 1, body: record(77, nil, []byte("x"))} },
		"100,000 empty records": func() batch {
			return batch{codec: gz, count: 100_000, body: gzipped(func(w io.Writer) {
				for i := range int64(100_000) {
					mustWrite(w, record(i, nil, []byte{}))
				}
			})}
		},
	}
}

// flags returns batches whose times and attributes no honest producer sets.
func flags() map[string]batch {
	one := record(0, nil, []byte("x"), header{schemas.HeaderSchema, []byte(schemas.SchemaPair)})
	return map[string]batch{
		"the year 292,278,994":    {count: 1, body: one, first: math.MaxInt64, last: math.MaxInt64},
		"the year 20,000":         {count: 1, body: one, first: 569e12, last: 569e12},
		"before all time":         {count: 1, body: one, first: math.MinInt64, last: math.MinInt64},
		"a second before 1970":    {count: 1, body: one, first: -1000, last: -1000},
		"no time":                 {count: 1, body: one, first: -1, last: -1},
		"times that overflow":     {count: 1, body: one, first: math.MaxInt64, last: math.MinInt64},
		"a time of the broker's":  {count: 1, body: one, flags: brokersTime, last: 1 << 60},
		"an end of a transaction": {count: 1, body: record(0, []byte{0, 0, 0, 1}, make([]byte, 6)), flags: transaction | control, producer: 1 << 40},
		"an abort of a strangers": {count: 1, body: record(0, []byte{0, 0, 0, 0}, make([]byte, 6)), flags: control},
		"an unknown control":      {count: 1, body: record(0, []byte{0, 9, 0, 9}, make([]byte, 6)), flags: control, producer: 1 << 41},
		"an open transaction":     {count: 1, body: one, flags: transaction, producer: 1 << 42},
		"an unknown codec":        {count: 1, body: one, codec: 7},
	}
}

// headers returns records with hostile headers.
func headers() map[string]func() []byte {
	schema := header{schemas.HeaderSchema, []byte(schemas.SchemaPair)}
	return map[string]func() []byte{
		"8 MB":             func() []byte { return record(0, nil, []byte("x"), header{"k", make([]byte, 8<<20)}) },
		"a thousand":       func() []byte { return record(0, nil, []byte("x"), make([]header, 1000)...) },
		"a schema of 1 MB": func() []byte { return record(0, nil, []byte("x"), header{schemas.HeaderSchema, make([]byte, 1<<20)}) },
		"a schema with lines": func() []byte {
			return record(0, nil, []byte("x"), header{schemas.HeaderSchema, []byte("a\nlevel=ERROR\x00")})
		},
		"a forged seq": func() []byte {
			return record(0, nil, []byte("x"), schema, header{schemas.HeaderSeq, []byte("9223372036854775807")})
		},
		"a forged source": func() []byte {
			return record(0, nil, []byte("x"), schema, header{schemas.HeaderSource, bytes.Repeat([]byte("9"), 1000)})
		},
		"a million":   func() []byte { return record(0, nil, []byte("x"), make([]header, 1_000_000)...) },
		"a seq of -1": func() []byte { return record(0, nil, []byte("x"), schema, header{schemas.HeaderSeq, []byte("-1")}) },
		"a schema twice": func() []byte {
			return record(0, nil, []byte("x"), schema, header{schemas.HeaderSchema, []byte(schemas.SchemaSeal)})
		},
		"a tombstone":           func() []byte { return record(0, []byte("key"), nil, schema) },
		"a tombstone of nobody": func() []byte { return record(0, []byte{}, nil) },
		"an empty key":          func() []byte { return record(0, []byte{}, []byte("x"), schema) },
		"a key of 2 MB":         func() []byte { return record(0, make([]byte, 2<<20), []byte("x"), schema) },
		"another stage's": func() []byte {
			return record(0, nil, []byte("x"), header{schemas.HeaderSchema, []byte(schemas.SchemaGroup)})
		},
		"a major of the future": func() []byte {
			return record(0, nil, []byte("x"), header{schemas.HeaderSchema, []byte("pairstream.pair/99")})
		},
	}
}

// values returns hostile values, which say that they are pairs.
func values() map[string]func() []byte {
	text := func(b []byte) func() []byte { return func() []byte { return b } }
	out := map[string]func() []byte{
		"nothing":                  text(nil),
		"no msgpack":               text([]byte("\xc1 no msgpack")),
		"a map without end":        text([]byte("\xdf\xff\xff\xff\xff")),
		"a text of 4 GB":           text([]byte("\x81\xa7caption\xdb\xff\xff\xff\xff")),
		"bytes of 4 GB":            text([]byte("\x81\xa6inline\xc6\xff\xff\xff\xff")),
		"a million lists":          text(bytes.Repeat([]byte{0x91}, 1<<20)),
		"a million maps":           text(bytes.Repeat([]byte("\x81\xa1x"), 1<<20)),
		"an extension":             text([]byte("\x81\xa7caption\xd4\x01x")),
		"an extension of 4 GB":     text([]byte("\x81\xa7caption\xc9\xff\xff\xff\xff\x01")),
		"a time as extension":      text([]byte("\x81\xaacrawl_time\xd6\xff\x00\x00\x00\x00")),
		"a time that is no number": text([]byte("\x81\xaacrawl_time\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01")),
		"a time of 2^64":           text([]byte("\x81\xaacrawl_time\xcf\xff\xff\xff\xff\xff\xff\xff\xff")),
		"a key of 4 GB":            text([]byte("\x81\xdb\xff\xff\xff\xff")),
		"a key that is a list":     text([]byte("\x81\x91\x01\xa1x")),
		"a key that is nil":        text([]byte("\x81\xc0\xa1x")),
		"nil":                      text([]byte("\xc0")),
		"two records":              text([]byte("\x80\x80")),
		"5,000 unknown keys": func() []byte {
			b := []byte("\xde\x13\x88")
			for i := range 5000 {
				b = append(append(b, 0xa4), fmt.Sprintf("%04d", i)...)
				b = append(b, 0xc0)
			}
			return b
		},
		"a problem of 10 MB": func() []byte {
			return append(append([]byte("\x81\xa7problem\xdb\x00\xa0\x00\x00"), bytes.Repeat([]byte("p"), 10<<20)...), 0)[:18+10<<20-1]
		},
		"a problem with lines":     text([]byte("\x81\xa7problem\xb4a\nlevel=ERROR msg=x\x1b[")),
		"a key twice":              text([]byte("\x82\xa7caption\xa1a\xa7caption\xa1b")),
		"the number of a caption":  text([]byte("\x81\xa7caption\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00")),
		"10 MB that are not asked": func() []byte { return append([]byte("\x81\xa5other\xc6\x00\xa0\x00\x00"), make([]byte, 10<<20)...) },
	}
	for name, value := range furtherValues() {
		out[name] = text(value)
	}
	for name, p := range pairs() {
		out[name] = func() []byte {
			value, err := msgpack.Marshal(p) // schemas.Marshal would refuse it
			if err != nil {
				panic(err)
			}
			return value
		}
	}
	return out
}

// pairs returns pairs that are well-formed and still not good.
func pairs() map[string]*schemas.Pair {
	at := func(uri string, offset, size int64) *schemas.Pair {
		p := &schemas.Pair{ImageID: schemas.NewImageID([]byte(uri)), Caption: "a picture of " + uri, Image: &schemas.ImageRef{URI: uri, Offset: offset, Size: size}}
		p.ID = schemas.NewPairID(p.ImageID, p.Caption)
		return p
	}
	forged := at("file:///etc/hostname", 0, 10)
	forged.ID = schemas.PairID{1}
	return map[string]*schemas.Pair{
		"a file of the system":       at("file:///etc/passwd", 0, 100),
		"a way up":                   at("file:///data/../../../etc/passwd", 0, 100),
		"a bucket elsewhere":         at("s3://elsewhere/shard.tar?endpoint=http://169.254.169.254", 512, 100),
		"an address of metadata":     at("http://169.254.169.254/latest/meta-data/", 0, 100),
		"no scheme":                  at("etc/passwd", 0, 100),
		"a key of 3,000 bytes":       at("file:///"+strings.Repeat("k", 3000), 0, 100),
		"a key that is no UTF-8":     at("file:///\xff\xfe.tar", 0, 100),
		"a negative offset":          at("file:///data/a.tar", -512, 100),
		"a size of 8 EB":             at("file:///data/a.tar", 512, 1<<62),
		"a place behind the end":     at("file:///data/a.tar", 1<<62, 1<<62),
		"an id of something else":    forged,
		"a caption of 5 MB":          {ImageID: schemas.NewImageID(nil), Caption: strings.Repeat("long ", 1<<20), Inline: []byte("x")},
		"a caption that is no UTF-8": {ImageID: schemas.NewImageID([]byte("x")), Caption: "caf\xe9", Inline: []byte("x")},
		"a caption of controls":      {ImageID: schemas.NewImageID([]byte("x")), Caption: "\x00\x1b[2J\u202e", Inline: []byte("x")},
	}
}

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
