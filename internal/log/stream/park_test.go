package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// failing is a copier that fails on some records while it is told to.
type failing struct {
	copier
	fail func(Record) error
}

func (s failing) Process(ctx context.Context, rec Record, out Output) error {
	if err := s.fail(rec); err != nil {
		return err
	}
	return s.copier.Process(ctx, rec, out)
}

func failingSpec(fail func(Record) error) StageSpec {
	return StageSpec{
		Name: "failing", Inputs: []schemas.Topic{schemas.Embeddings}, Outputs: []schemas.Topic{schemas.Groups}, Counters: new(Counters),
		New: func(int, []byte) (Stage, error) {
			return failing{copier{schemas.Embeddings, schemas.Groups}, fail}, nil
		},
	}
}

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families := must.Get(reg.Gather())(t)
	for _, f := range families {
		if f.GetName() == metricsPrefix+name {
			sum := 0.0
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue()
			}
			return sum
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func openMeasured(t *testing.T, cfg Config) (*Log, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	l := must.Get(Connect(t.Context(), cfg, Options{Registerer: reg}))(t)
	t.Cleanup(l.Close)
	must.Do(t, l.EnsureTopics(t.Context()))
	return l, reg
}

// TestDamagedLaneIsParked damages one lane of two, in several ways. The lane says why where all can see it, and the
// other lane goes on. Once the damage is put right, so does the first.
func TestDamagedLaneIsParked(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"damaged":                {Damaged(errors.New("a page is torn out")), "a page is torn out"},
		"too large for a topic":  {kafka.ErrTooLarge, "larger than its topic takes"},
		"refused by the brokers": {kafkago.TopicAuthorizationFailed, "Topic Authorization Failed"},
		"a wrong clock":          {kafkago.InvalidTimestamp, "Invalid Timestamp"},
		"not known":              {errors.New("something broke"), "something broke"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, reg := openMeasured(t, testConfig(b.Addr(), strings.ReplaceAll(name, " ", "-"), 2))
			l.parkedPause = 10 * time.Millisecond
			for seq := range int64(5) {
				put(t, l, numbered(schemas.Embeddings, 0, seq, "value"), numbered(schemas.Embeddings, 1, seq, "value"))
			}
			var mended atomic.Bool
			r := start(l, failingSpec(func(rec Record) error {
				if rec.Lane == 0 && rec.Seq == 2 && !mended.Load() {
					return c.err
				}
				return nil
			}))
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 4}, 1)
			await(t, "the lane says that it is parked", func() bool {
				lags := must.Get(l.Lag(t.Context(), "failing", schemas.Embeddings))(t)
				return strings.HasPrefix(lags[0].State, "parked: ") && strings.Contains(lags[0].State, c.want) && lags[1].State == ""
			})
			if got := gauge(t, reg, "parked_lanes"); got != 1 {
				t.Errorf("%g parked lanes", got)
			}
			mended.Store(true)
			awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 4}, 0)
			await(t, "the lane is at work again", func() bool {
				lags, err := l.Lag(t.Context(), "failing", schemas.Embeddings)
				return err == nil && lags[0].State == "" && gauge(t, reg, "parked_lanes") == 0
			})
			r.stop(t)
		})
	}
}

// TestForeignSeqParksTheLane writes a record with a seq far ahead. Anyone can do so who may write to the topic.
func TestForeignSeqParksTheLane(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	put(t, l, numbered(schemas.Embeddings, 0, 0, "zero"), numbered(schemas.Embeddings, 0, 1<<40, "foreign"), numbered(schemas.Embeddings, 0, 1, "one"))
	got := parked(t, l, failingSpec(func(Record) error { return nil }))
	if want := "lane 0 parked: records are missing: topic embeddings, lane 0, offset 1: expected seq 1, found 1099511627776"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestNewerRecordWaits meets a record of a newer major on a topic that stages write. The stage does not drop it, and
// a newer program takes it up.
func TestNewerRecordWaits(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	future := sequenced(schemas.Embeddings, 0, 1, Mark{}, "pairstream.embedding/2", []byte("from the future"))
	put(t, l, numbered(schemas.Embeddings, 0, 0, "zero"), future)
	old := failingSpec(func(rec Record) error {
		if rec.Schema == testSchema {
			return nil
		}
		_, err := schemas.Unmarshal(rec.Schema, rec.Value)
		return Poison(err)
	})
	if got := parked(t, l, old); !strings.Contains(got, "embeddings, lane 0, offset 1, seq 1 is of a newer version") {
		t.Errorf("got %q", got)
	}
	for d, err := range l.DeadLetters(t.Context()) {
		t.Errorf("dead letter %+v, error %v", d, err)
	}
	r := start(l, failingSpec(func(Record) error { return nil }))
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Groups: 1}, 0)
	r.stop(t)
}

// TestWaitingIsSaid lets a stage wait for an input that nobody writes, while another input has records.
func TestWaitingIsSaid(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l, reg := openMeasured(t, testConfig(b.Addr(), "", 1))
	l.saidAfter = time.Millisecond
	spec := joinerSpec()
	spec.Counters = new(Counters)
	r := start(l, spec)
	await(t, "the stage waits for a group", func() bool {
		return strings.Join(spec.Counters.States(), "") == "lane 0 waits for groups" && gauge(t, reg, "waiting_lanes") == 0
	})
	put(t, l, numbered(schemas.Groups, 0, 0, "take 1"), numbered(schemas.Groups, 0, 1, "take 1"))
	await(t, "it waits for features, which holds up a group", func() bool {
		lags := must.Get(l.Lag(t.Context(), "joiner", schemas.Groups))(t)
		return lags[0].State == "waits for features" && gauge(t, reg, "waiting_lanes") == 1
	})
	put(t, l, numbered(schemas.Features, 0, 0, "a"), numbered(schemas.Features, 0, 1, "b"))
	await(t, "it has all that it wants", func() bool { return gauge(t, reg, "waiting_lanes") == 0 })
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Batches: 1}, 0)
	put(t, l, numbered(schemas.Features, 0, 2, "of nothing"))
	await(t, "another group must be missing", func() bool { return gauge(t, reg, "waiting_lanes") == 1 })
	end := must.Get(schemas.Marshal(&schemas.Seal{Final: true}))(t)
	put(t, l, sequenced(schemas.Groups, 0, 2, Mark{}, schemas.SchemaSeal, end))
	await(t, "the lane has ended, and waits for nothing", func() bool {
		return strings.Join(spec.Counters.States(), "") == "" && gauge(t, reg, "waiting_lanes") == 0
	})
	r.stop(t)
}

func TestIsTransient(t *testing.T) {
	for err, want := range map[error]bool{
		kafkago.NotLeaderForPartition: true, kafkago.RequestTimedOut: true, kafkago.LeaderNotAvailable: true, kafkago.NotEnoughReplicas: true,
		io.ErrUnexpectedEOF: true, context.DeadlineExceeded: true, Transient(errors.New("x")): true,
		kafkago.OffsetOutOfRange: false, kafkago.MessageSizeTooLarge: false, kafkago.TopicAuthorizationFailed: false, kafkago.InvalidTimestamp: false,
		Damaged(io.ErrUnexpectedEOF): false, errors.New("x"): false, ErrGap: false,
	} {
		for _, e := range []error{err, fmt.Errorf("reading: %w", err)} {
			if got := isTransient(e); got != want {
				t.Errorf("%v passes: %t", e, got)
			}
		}
	}
}

// TestSlowAcks lets a broker take longer for its acks than a request may. The log then has each record about once.
func TestSlowAcks(t *testing.T) {
	b := startBroker(t, broker.Options{})
	var slow atomic.Bool
	b.Cluster().ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		if slow.Load() {
			b.Cluster().SleepControl(func() { time.Sleep(450 * time.Millisecond) })
		}
		return nil, nil, false
	})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.RequestTimeout = 100 * time.Millisecond
	l := openLog(t, cfg)
	slow.Store(true)
	for topic, m := range map[schemas.Topic]message{
		schemas.Pairs: pair(0, "pair"), schemas.Embeddings: numbered(schemas.Embeddings, 0, 0, "embedding"),
		schemas.DeadLetters: deadLetter("encoder", Record{Topic: schemas.Pairs, Value: []byte("x")}, "malformed"),
	} {
		put(t, l, m)
		time.Sleep(time.Second) // time for what is still on its way
		bounds := must.Get(l.Bounds(t.Context(), topic, 0))(t)
		if bounds.End < 1 || bounds.End > 4 {
			t.Errorf("%s has the record %d times", topic, bounds.End)
		}
	}
}
