package stream

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// logAppendTime is the bit of a batch whose records have the time of the broker.
const logAppendTime = 0x08

// rawBatch is a batch as a hostile producer makes it. What it says of itself need not be true.
type rawBatch struct {
	codec byte
	count int32
	body  []byte
	flags byte
	time  int64 // milliseconds
}

func (b rawBatch) bytes() []byte {
	raw := kmsg.RecordBatch{
		Length: int32(49 + len(b.body)), Magic: 2, Attributes: int16(b.codec | b.flags), LastOffsetDelta: b.count - 1, FirstTimestamp: b.time,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: b.count, Records: b.body,
	}
	const behindTheSum = 21
	raw.CRC = int32(crc32.Checksum(raw.AppendTo(nil)[behindTheSum:], crc32.MakeTable(crc32.Castagnoli)))
	return raw.AppendTo(nil)
}

// rawRecord returns a record of a batch, with its headers as they are.
func rawRecord(delta int64, value, headers []byte) []byte {
	body := []byte{0}
	body = binary.AppendVarint(body, 0)
	body = binary.AppendVarint(body, delta)
	body = binary.AppendVarint(body, -1)
	body = binary.AppendVarint(body, int64(len(value)))
	body = append(append(body, value...), headers...)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

var noHeaders = []byte{0}

func headersOf(n int, value []byte) []byte {
	h := binary.AppendVarint(nil, int64(n))
	for range n {
		h = append(binary.AppendVarint(h, 1), 'k')
		h = append(binary.AppendVarint(h, int64(len(value))), value...)
	}
	return h
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	must.Get(w.Write(b))(t)
	must.Do(t, w.Close())
	return out.Bytes()
}

func zstdOf(t *testing.T, b []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	w := must.Get(zstd.NewWriter(nil, opts...))(t)
	return w.EncodeAll(b, nil)
}

func kgoClient(t *testing.T, l *Log, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client := must.Get(kgo.NewClient(append(opts, kgo.SeedBrokers(l.cfg.Brokers...))...))(t)
	t.Cleanup(client.Close)
	return client
}

// produceRaw sends a batch to lane 0 of pairs, and returns the broker's answer.
func produceRaw(t *testing.T, l *Log, b rawBatch) error {
	t.Helper()
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = b.bytes()
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.Partitions = l.Name(schemas.Pairs), append(topic.Partitions, p)
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(8)
	req.Acks, req.TimeoutMillis, req.Topics = -1, 5000, append(req.Topics, topic)
	resp := must.Get(kgoClient(t, l, kgo.MaxVersions(kversion.V2_8_0())).Broker(0).RetriableRequest(t.Context(), req))(t)
	return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

// TestHostileBatches sends what a stranger may put into a batch, with good pairs before and behind. Each batch costs
// only itself.
func TestHostileBatches(t *testing.T) {
	good := rawRecord(0, []byte("inside"), noHeaders)
	zeros := make([]byte, 40<<20)
	window := zstdOf(t, zeros, zstd.WithWindowSize(256<<20), zstd.WithSingleSegment(false))
	tests := map[string]struct {
		batch  rawBatch
		inside int    // pairs of the batch that are good
		aside  string // the reason with which the rest is set aside
		refuse bool   // the broker does not take it
	}{
		"a time of the broker's":        {batch: rawBatch{count: 1, body: good, flags: logAppendTime}, refuse: true},
		"a negative number of records":  {batch: rawBatch{count: -1, body: good}, refuse: true},
		"no records":                    {batch: rawBatch{count: 0}, refuse: true},
		"records without end":           {batch: rawBatch{count: 1 << 30, body: good}, refuse: true},
		"records without end, gzip":     {batch: rawBatch{codec: 1, count: 1 << 30, body: gzipped(t, good)}, refuse: true},
		"more records than are there":   {batch: rawBatch{codec: 1, count: 900, body: gzipped(t, good)}, inside: 1, aside: "broken batch: record 1 of 900: cut short (offsets 2 to 900)", refuse: false},
		"a record without end":          {batch: rawBatch{count: 1, body: binary.AppendVarint([]byte{}, 1<<40)}, inside: 0, aside: "", refuse: true},
		"a value without end":           {batch: rawBatch{count: 1, body: []byte{40, 0, 0, 0, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, inside: 0, aside: "broken batch: record 0 of 1", refuse: false},
		"an offset elsewhere":           {batch: rawBatch{count: 1, body: rawRecord(77, []byte("x"), noHeaders)}, inside: 0, aside: "broken batch: record 0 of 1 lies behind its end", refuse: false},
		"800 MB of zeros in zstd":       {batch: rawBatch{codec: 4, count: 1, body: bombOf(t, 20)}, inside: 0, aside: "oversized batch", refuse: false},
		"40 MB in gzip":                 {batch: rawBatch{codec: 1, count: 1, body: gzipped(t, rawRecord(0, zeros, noHeaders))}, inside: 0, aside: "oversized batch", refuse: false},
		"a good record before 40 MB":    {batch: rawBatch{codec: 1, count: 2, body: gzipped(t, append(slices.Clone(good), rawRecord(1, zeros, noHeaders)...))}, inside: 1, aside: "oversized batch", refuse: false},
		"a window of 256 MB":            {batch: rawBatch{codec: 4, count: 1, body: window}, inside: 0, aside: "broken batch: decompressing", refuse: false},
		"4 GB of snappy":                {batch: rawBatch{codec: 2, count: 1, body: []byte("\xff\xff\xff\xff\x0f and that is all")}, inside: 0, aside: "oversized batch", refuse: false},
		"a snappy frame of 4 GB":        {batch: rawBatch{codec: 2, count: 1, body: []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff")}, inside: 0, aside: "broken batch: decompressing", refuse: false},
		"noise for every codec: gzip":   {batch: rawBatch{codec: 1, count: 1, body: []byte("noise, noise")}, inside: 0, aside: "broken batch: decompressing", refuse: false},
		"noise for every codec: snappy": {batch: rawBatch{codec: 2, count: 1, body: []byte("noise, noise")}, inside: 0, aside: "broken batch: decompressing", refuse: false},
		"noise for every codec: lz4":    {batch: rawBatch{codec: 3, count: 1, body: []byte("noise, noise")}, inside: 0, aside: "broken batch: decompressing", refuse: false},
		"noise for every codec: zstd":   {batch: rawBatch{codec: 4, count: 1, body: []byte("noise, noise")}, inside: 0, aside: "broken batch: decompressing", refuse: false},
		"headers of 8 MB":               {batch: rawBatch{count: 1, body: rawRecord(0, []byte("x"), headersOf(1, zeros[:8<<20]))}, inside: 0, aside: "oversized headers", refuse: false},
		"too many headers":              {batch: rawBatch{count: 1, body: rawRecord(0, []byte("x"), headersOf(1000, nil))}, inside: 0, aside: "oversized headers", refuse: false},
		"headers without end":           {batch: rawBatch{count: 1, body: rawRecord(0, []byte("x"), binary.AppendVarint(nil, 1<<30))}, inside: 0, aside: "broken batch: record 0 of 1", refuse: false},
		"a negative number of headers":  {batch: rawBatch{count: 1, body: rawRecord(0, []byte("x"), binary.AppendVarint(nil, -5))}, inside: 0, aside: "broken batch: record 0 of 1", refuse: false},
		"records of nothing":            {batch: rawBatch{codec: 1, count: 200_000, body: gzipped(t, nothings(200_000))}, inside: 200_000, aside: "", refuse: false},
	}
	b := startBroker(t, broker.Options{})
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(b.Addr(), strings.NewReplacer(" ", "-", ",", "", ":", "", "'", "").Replace(name), 1)
			cfg.MaxBytesInFlight = 32 << 20
			l := openLog(t, cfg)
			put(t, l, pair(0, "before"))
			if err := produceRaw(t, l, c.batch); (err != nil) != c.refuse {
				t.Fatalf("the broker answers %v", err)
			}
			put(t, l, pair(0, "behind"))
			if c.refuse {
				c.inside, c.aside = 0, ""
			}
			spec := batcherSpec()
			spec.Counters = new(Counters)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := start(l, spec)
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: int64(c.inside) + 1}, 0)
			runtime.ReadMemStats(&after)
			r.stop(t)
			if got := lines(t, l, schemas.Embeddings, 0); got[0] != "embedding of before" || got[len(got)-1] != "embedding of behind" {
				t.Errorf("%d embeddings from %q to %q", len(got), got[0], got[len(got)-1])
			}
			if took := after.TotalAlloc - before.TotalAlloc; c.inside < 2 && took > 256<<20 {
				t.Errorf("%d MB were allocated", took>>20)
			}
			var reasons []string
			for d, err := range l.DeadLetters(t.Context()) {
				must.Do(t, err)
				reasons = append(reasons, d.Reason)
			}
			if want := min(len(c.aside), 1); len(reasons) != want || want == 1 && !strings.HasPrefix(reasons[0], c.aside) {
				t.Errorf("set aside with %q, want %q", reasons, c.aside)
			}
		})
	}
}

// TestChecksumThatNeverMatches uses a broker that changes the time of a batch and not its checksum. The batch is read a
// few times, and is set aside then.
func TestChecksumThatNeverMatches(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(time.Second)) // the broker that guardBatches makes of it refuses the batch
	must.Do(t, err)
	t.Cleanup(c.Close)
	l := openLog(t, testConfig(c.ListenAddrs()[0], "", 1))
	put(t, l, pair(0, "before"))
	must.Do(t, produceRaw(t, l, rawBatch{count: 2, flags: logAppendTime, body: slices.Concat(rawRecord(0, []byte("x"), noHeaders), rawRecord(1, []byte("y"), noHeaders))}))
	put(t, l, pair(0, "behind"))
	r := start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 1}, 0)
	r.stop(t)
	var reasons []string
	for d, err := range l.DeadLetters(t.Context()) {
		must.Do(t, err)
		reasons = append(reasons, d.Reason)
	}
	if want := []string{"broken batch: its checksum does not match (offsets 1 to 2)"}; !slices.Equal(reasons, want) {
		t.Errorf("set aside with %q, want %q", reasons, want)
	}
}

// TestTimesOfProducersStopNoLane gives the last record before a restart a time that no broker can have set.
func TestTimesOfProducersStopNoLane(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for name, at := range map[string]int64{"the year 20,000": 569e12, "the end of time": 1<<63 - 1, "before all time": -1 << 63, "no time": -1} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(b.Addr(), strings.NewReplacer(" ", "-", ",", "").Replace(name), 1))
			must.Do(t, produceRaw(t, l, rawBatch{count: 1, body: rawRecord(0, []byte("x"), noHeaders), time: at}))
			for i := range 2 {
				r := start(l, batcherSpec())
				awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: int64(i)}, 0)
				r.stop(t)
				put(t, l, pair(0, "next"))
			}
		})
	}
}

// bombOf returns a record of so many times 40 MB of zeros.
func bombOf(t *testing.T, times int) []byte {
	t.Helper()
	var out bytes.Buffer
	w := must.Get(zstd.NewWriter(&out, zstd.WithWindowSize(1<<20)))(t)
	zeros := make([]byte, 40<<20)
	must.Get(w.Write(binary.AppendVarint(nil, int64(times*len(zeros)))))(t)
	for range times {
		must.Get(w.Write(zeros))(t)
	}
	must.Do(t, w.Close())
	return out.Bytes()
}

func nothings(n int) []byte {
	var body []byte
	for i := range n {
		body = append(body, rawRecord(int64(i), nil, noHeaders)...)
	}
	return body
}

// TestHeadersAreCounted reads records that are nothing but headers, within a budget.
func TestHeadersAreCounted(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.BatchBytes = 64 << 10
	l := openLog(t, cfg)
	for i := range 100 {
		m := pair(0, fmt.Sprint("pair ", i))
		m.Headers = append(m.Headers, kafka.Header{Key: "large", Value: make([]byte, 60<<10)})
		put(t, l, m)
	}
	var c Counters
	const budget = 1 << 20
	r := l.OpenReader(schemas.Pairs, 0, Position{}, ReaderOptions{MaxBytes: budget, Counters: &c})
	defer r.Close()
	await(t, "the budget is used", func() bool { return c.BytesInFlight.Load() >= budget })
	if got := c.BytesInFlight.Load(); got > 3*budget {
		t.Errorf("%d bytes in flight", got)
	}
	for i := range 100 {
		if rec, err := r.Next(t.Context()); err != nil || string(rec.Value) != fmt.Sprint("pair ", i) {
			t.Fatalf("record %d is %q, error %v", i, rec.Value, err)
		}
	}
}

// TestAbortedTransactions writes with transactions, as an outside producer may. Aborted records count as never
// written.
func TestAbortedTransactions(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	client := kgoClient(t, l, kgo.TransactionalID("producer"), kgo.DefaultProduceTopic(l.Name(schemas.Pairs)), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	transaction := func(end kgo.TransactionEndTry, values ...string) {
		t.Helper()
		must.Do(t, client.BeginTransaction())
		for _, v := range values {
			must.Do(t, client.ProduceSync(t.Context(), kgo.StringRecord(v)).FirstErr())
		}
		must.Do(t, client.EndTransaction(t.Context(), end))
	}
	put(t, l, pair(0, "plain"))
	transaction(kgo.TryAbort, "aborted 1", "aborted 2")
	transaction(kgo.TryCommit, "committed 1")
	put(t, l, pair(0, "between"))
	transaction(kgo.TryAbort, "aborted 3")
	transaction(kgo.TryCommit, "committed 2")
	want := []string{"plain", "committed 1", "between", "committed 2"}
	if got := lines(t, l, schemas.Pairs, 0); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	r := start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: int64(len(want)) - 1}, 0)
	r.stop(t)
	if rec, found, err := l.LastRecord(t.Context(), schemas.Pairs, 0); err != nil || !found || string(rec.Value) != "committed 2" {
		t.Errorf("the last pair is %q, error %v", rec.Value, err)
	}

	// An open transaction holds back what comes behind it, and nothing of it is read.
	must.Do(t, client.BeginTransaction())
	must.Do(t, client.ProduceSync(t.Context(), kgo.StringRecord("open")).FirstErr())
	if got := lines(t, l, schemas.Pairs, 0); !slices.Equal(got, want) {
		t.Errorf("with an open transaction: got %q, want %q", got, want)
	}
	must.Do(t, client.EndTransaction(t.Context(), kgo.TryCommit))
	if got := lines(t, l, schemas.Pairs, 0); !slices.Equal(got, append(want, "open")) {
		t.Errorf("after its end: got %q", got)
	}
}

// TestDeadLetterThatDoesNotFit sets aside records that dead-letters do not take whole. The letter keeps the beginning
// and says so. The topic may take less than the configuration says.
func TestDeadLetterThatDoesNotFit(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for name, c := range map[string]struct {
		value, key, limit int
		least             int // bytes that are kept
	}{
		"it fits":                     {value: 1 << 20, least: 1 << 20},
		"a large value":               {value: 3 << 20, least: 1<<20 + 1<<19},
		"a large key":                 {value: 10, key: 3 << 20, least: 10},
		"both":                        {value: 3 << 20, key: 3 << 20, least: 1<<20 + 1<<19},
		"the topic takes less":        {value: 1 << 20, limit: 100_000, least: 20_000},
		"the topic takes very little": {value: 1 << 20, limit: 2000, least: 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(b.Addr(), strings.ReplaceAll(name, " ", "-"), 1)
			cfg.MaxMessageBytes = 1 << 20
			l := openLog(t, cfg)
			if c.limit > 0 {
				alterTopic(t, l, schemas.DeadLetters, "max.message.bytes", strconv.Itoa(c.limit))
				l = must.Get(Connect(t.Context(), cfg, Options{}))(t) // which does not know
				t.Cleanup(l.Close)
			}
			rec := Record{Topic: schemas.Pairs, Offset: 7, Value: bytes.Repeat([]byte("v"), c.value), Key: bytes.Repeat([]byte("k"), c.key)}
			p := l.NewPublisher(PublisherOptions{})
			must.Do(t, p.DeadLetter(t.Context(), "encoder", rec, "malformed: it is"))
			must.Do(t, p.Close(t.Context()))
			n := 0
			for d, err := range l.DeadLetters(t.Context()) {
				must.Do(t, err)
				n++
				if d.Offset != 7 || d.Reason != "malformed: it is" || len(d.Value) < c.least || !bytes.HasPrefix(rec.Value, d.Value) {
					t.Errorf("dead letter with %d bytes, reason %q", len(d.Value), d.Reason)
				}
				whole := len(d.Value) == c.value && len(d.Key) == c.key
				if (d.Cut == 0) != whole || !whole && d.Cut != int64(c.value) {
					t.Errorf("%d bytes, says that it had %d", len(d.Value), d.Cut)
				}
				if err := p.Republish(t.Context(), d); (err == nil || !strings.Contains(err.Error(), "has only")) && !whole {
					t.Errorf("a letter that was cut is put back: %v", err)
				}
			}
			if n != 1 {
				t.Errorf("%d dead letters", n)
			}
		})
	}
}

func alterTopic(t *testing.T, l *Log, topic schemas.Topic, name, value string) {
	t.Helper()
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Value = name, &value
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName, r.Configs = kmsg.ConfigResourceTypeTopic, l.Name(topic), append(r.Configs, rc)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, r)
	resp := must.Get(req.RequestWith(t.Context(), kgoClient(t, l)))(t)
	if code := resp.Resources[0].ErrorCode; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
}

// TestReasonClasses lets records invent reasons. A metric has no series for them.
func TestReasonClasses(t *testing.T) {
	for reason, want := range map[string]string{
		"image missing: a.tar": "image missing", "malformed": "malformed", "": "other", "made up by a stranger: x": "other",
		"Malformed: x": "other", ": x": "other", "image missing": "image missing", "abc def-ghi": "other",
	} {
		if got := reasonClass(reason); got != want {
			t.Errorf("%q is of class %q, want %q", reason, got, want)
		}
	}
}

// TestDeadLetterWithLargeHeaders sets aside records whose key and headers fill what a reader takes. The headers of
// the letter come on top, and a reader must still take the letter.
func TestDeadLetterWithLargeHeaders(t *testing.T) {
	b := startBroker(t, broker.Options{})
	large := make([]byte, kafka.MaxHeaderBytes-8)
	many := make([]kafka.Header, kafka.MaxRecordHeaders)
	for i := range many {
		many[i] = kafka.Header{Key: "k", Value: []byte("v")}
	}
	for name, rec := range map[string]Record{
		"a large key":    {Key: make([]byte, 2<<20)},
		"a large header": {Headers: []kafka.Header{{Key: "k", Value: large}}},
		"many headers":   {Headers: many},
		"all of it":      {Key: make([]byte, 100<<10), Headers: append([]kafka.Header{{Key: "large", Value: large[:60<<10]}}, many[1:]...)},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(b.Addr(), strings.ReplaceAll(name, " ", "-"), 1))
			rec.Topic, rec.Offset, rec.Value = schemas.Pairs, 7, []byte("value")
			p := l.NewPublisher(PublisherOptions{})
			must.Do(t, p.DeadLetter(t.Context(), "encoder", rec, "malformed: it is"))
			n := 0
			for d, err := range l.DeadLetters(t.Context()) {
				must.Do(t, err)
				n++
				if d.Offset != 7 || string(d.Value) != "value" || !bytes.HasPrefix(rec.Key, d.Key) {
					t.Errorf("set aside: offset %d, %q with a key of %d bytes", d.Offset, d.Value, len(d.Key))
				}
			}
			if n != 1 {
				t.Errorf("%d dead letters can be read, want 1", n)
			}
		})
	}
}
