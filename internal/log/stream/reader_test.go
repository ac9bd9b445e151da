package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestReaderSeesEveryRecordOnce(t *testing.T) {
	b := startBroker(t, broker.Options{})
	const n = 40
	one := func(seq int) message { return numbered(schemas.Embeddings, 0, int64(seq), fmt.Sprint("value ", seq)) }
	var want []string
	for i := range n {
		want = append(want, fmt.Sprint("value ", i))
	}
	for name, disturb := range map[string]func(r *rand.Rand) []message{
		"as written": func(*rand.Rand) (m []message) {
			for i := range n {
				m = append(m, one(i))
			}
			return m
		},
		"each twice": func(*rand.Rand) (m []message) {
			for i := range n {
				m = append(m, one(i), one(i))
			}
			return m
		},
		"earlier ones again, in any order": func(r *rand.Rand) (m []message) {
			for i := range n {
				m = append(m, one(i))
				for range 3 {
					m = append(m, one(r.IntN(i+1)))
				}
			}
			return m
		},
		"rewritten from an earlier seq, again and again": func(r *rand.Rand) (m []message) {
			for i := 0; i < n; {
				end := min(i+1+r.IntN(6), n)
				for j := r.IntN(i + 1); j < end; j++ {
					m = append(m, one(j))
				}
				i = end
			}
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(b.Addr(), strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), ",", ""), 1))
			put(t, l, disturb(rand.New(rand.NewPCG(1, 2)))...)
			if got := lines(t, l, schemas.Embeddings, 0); !slices.Equal(got, want) {
				t.Fatalf("got %q\nwant %q", got, want)
			}
			testEveryPosition(t, l, want)
		})
	}
}

// testEveryPosition stops and resumes reading after every record.
func testEveryPosition(t *testing.T, l *Log, want []string) {
	t.Helper()
	var pos Position
	for i := range want {
		r := l.OpenReader(schemas.Embeddings, 0, pos, ReaderOptions{})
		rec, err := r.Next(t.Context())
		r.Close()
		must.Do(t, err)
		if string(rec.Value) != want[i] || rec.Seq != int64(i) {
			t.Fatalf("resumed at %+v: got seq %d, %q, want %q", pos, rec.Seq, rec.Value, want[i])
		}
		pos = rec.Next()
	}
}

func TestReaderReportsAGap(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for name, c := range map[string]struct {
		seqs []int64
		want GapError
	}{
		"in the middle":       {[]int64{0, 1, 3}, GapError{Offset: 2, Expected: 2, Found: 3}},
		"at the start":        {[]int64{1}, GapError{Offset: 0, Expected: 0, Found: 1}},
		"behind a repetition": {[]int64{0, 1, 0, 5}, GapError{Offset: 3, Expected: 2, Found: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLog(t, testConfig(b.Addr(), strings.ReplaceAll(name, " ", "-"), 1))
			for _, s := range c.seqs {
				put(t, l, numbered(schemas.Scored, 0, s, "value"))
			}
			var err error
			for _, rerr := range l.Records(t.Context(), schemas.Scored, 0, Position{}, -1) {
				err = rerr
			}
			var gap *GapError
			if !errors.As(err, &gap) || !errors.Is(err, ErrGap) {
				t.Fatalf("got %v, want a gap", err)
			}
			c.want.Topic = schemas.Scored
			if *gap != c.want {
				t.Fatalf("got %+v, want %+v", *gap, c.want)
			}
		})
	}
}

func TestReaderHandsOutForeignRecords(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	foreign := func(seq ...string) message {
		m := pair(0, "foreign")
		m.Topic = schemas.Groups
		for _, s := range seq {
			m.Headers = append(m.Headers, kafka.Header{Key: schemas.HeaderSeq, Value: []byte(s)})
		}
		return m
	}
	put(t, l, numbered(schemas.Groups, 0, 0, "zero"), foreign(), foreign("-1"), foreign("01"), foreign("+1"), foreign("1x"),
		foreign(""), foreign("99999999999999999999"), numbered(schemas.Groups, 0, 1, "one"))
	r := l.OpenReader(schemas.Groups, 0, Position{}, ReaderOptions{})
	defer r.Close()
	var got []string
	for len(got) < 9 {
		rec, err := r.Next(t.Context())
		switch {
		case errors.Is(err, ErrPoison):
			got = append(got, "poison "+string(rec.Value))
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, string(rec.Value))
		}
	}
	want := append(append([]string{"zero"}, slices.Repeat([]string{"poison foreign"}, 7)...), "one")
	if !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// deleteRecords removes what lies before offset, as retention does. kafka-go has no call for it.
func deleteRecords(t *testing.T, l *Log, topic schemas.Topic, offset int64) {
	t.Helper()
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(l.cfg.Brokers...)))(t)
	defer client.Close()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Offset = offset
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic, rt.Partitions = l.Name(topic), append(rt.Partitions, part)
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Topics = append(req.Topics, rt)
	resp := must.Get(req.RequestWith(t.Context(), client))(t)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatal(kerr.ErrorForCode(code))
	}
}

func TestTrimmedTopics(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	for i := range 10 {
		put(t, l, pair(0, fmt.Sprint("pair ", i)), numbered(schemas.Embeddings, 0, int64(i), fmt.Sprint("value ", i)))
	}
	deleteRecords(t, l, schemas.Pairs, 4)
	deleteRecords(t, l, schemas.Embeddings, 4)

	t.Run("a stage starts with the first pair that is left", func(t *testing.T) {
		spec := batcherSpec()
		spec.Outputs = []schemas.Topic{schemas.Groups}
		spec.New = func(int, []byte) (Stage, error) { return copier{schemas.Pairs, schemas.Groups}, nil }
		r := start(l, spec)
		awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 5}, 0)
		r.stop(t)
		if got := lines(t, l, schemas.Groups, 0); got[0] != "pair 4" || len(got) != 6 {
			t.Errorf("got %q", got)
		}
	})
	t.Run("a sequence does not", func(t *testing.T) {
		r := l.OpenReader(schemas.Embeddings, 0, Position{Offset: 2, Seq: 2}, ReaderOptions{})
		defer r.Close()
		_, err := r.Next(t.Context())
		if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), "retention") {
			t.Errorf("got %v, want a gap made by retention", err)
		}
	})
	t.Run("a position behind the end", func(t *testing.T) {
		r := l.OpenReader(schemas.Embeddings, 0, Position{Offset: 20, Seq: 20}, ReaderOptions{})
		defer r.Close()
		_, err := r.Next(t.Context())
		if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), "ends at 10") {
			t.Errorf("got %v, want that the log ends before", err)
		}
	})
	t.Run("the last record is found", func(t *testing.T) {
		deleteRecords(t, l, schemas.Embeddings, 9)
		if seq, err := l.LastSeq(t.Context(), schemas.Embeddings, 0); err != nil || seq != 9 {
			t.Errorf("got seq %d, error %v, want 9", seq, err)
		}
	})
	t.Run("a stage does not number its records anew", func(t *testing.T) {
		deleteRecords(t, l, schemas.Embeddings, 10)
		if _, err := l.LastSeq(t.Context(), schemas.Embeddings, 0); !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), "retention.ms") {
			t.Errorf("got %v, want an error that names the setting", err)
		}
		if got := parked(t, l, batcherSpec()); !strings.Contains(got, "retention.ms") {
			t.Errorf("got %v, want that the lane is parked", got)
		}
	})
}

// copier is the simplest stage.
type copier struct{ in, out schemas.Topic }

func (s copier) Input() schemas.Topic { return s.in }
func (s copier) Process(_ context.Context, rec Record, out Output) error {
	return out.Emit(s.out, raw{rec.Schema, rec.Value}, out.After(rec, nil))
}
func (s copier) Flush(context.Context, Output) error { return nil }

func TestLastRecord(t *testing.T) {
	b := startBroker(t, broker.Options{})
	junk := pair(0, "junk")
	junk.Topic = schemas.Batches
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, behind := range []int{0, 1, 7, 100} {
			t.Run(fmt.Sprintf("%s, %d foreign records behind", codec, behind), func(t *testing.T) {
				cfg := testConfig(b.Addr(), fmt.Sprintf("%s-%d", codec, behind), 1)
				cfg.Compression, cfg.Linger = codec, 50*time.Millisecond // so that all are one batch
				l := openLog(t, cfg)
				if seq, err := l.LastSeq(t.Context(), schemas.Batches, 0); err != nil || seq != -1 {
					t.Fatalf("got seq %d, error %v, want -1 for an empty lane", seq, err)
				}
				var m []message
				for i := range 50 {
					m = append(m, numbered(schemas.Batches, 0, int64(i), strings.Repeat("value", 20)))
				}
				put(t, l, append(m, slices.Repeat([]message{junk}, behind)...)...)
				if seq, err := l.LastSeq(t.Context(), schemas.Batches, 0); err != nil || seq != 49 {
					t.Fatalf("got seq %d, error %v, want 49", seq, err)
				}
			})
		}
	}
}

func TestReaderStaysWithinItsBudget(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.BatchBytes = 8 << 10
	l := openLog(t, cfg)
	var m []message
	for i := range 200 {
		m = append(m, numbered(schemas.Features, 0, int64(i), strings.Repeat("x", 2000)))
	}
	put(t, l, m...)
	var c Counters
	const budget = 64 << 10
	r := l.OpenReader(schemas.Features, 0, Position{}, ReaderOptions{MaxBytes: budget, Counters: &c})
	peak := int64(0)
	for range 200 {
		must.Get(r.Next(t.Context()))(t)
		peak = max(peak, c.BytesInFlight.Load())
	}
	r.Close()
	// One fetch may come on top of a budget that is nearly used up. The budget limits that fetch as well.
	if peak > 2*budget+(9<<10) {
		t.Errorf("%d bytes in flight, want at most %d", peak, 2*budget)
	}
	if left := c.BytesInFlight.Load(); left != 0 {
		t.Errorf("%d bytes in flight after closing", left)
	}
}
