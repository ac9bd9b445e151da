package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestProduceThatTimedOutIsRepeated lets the broker take batches and then answer that it did not.
func TestProduceThatTimedOutIsRepeated(t *testing.T) {
	t.Parallel()
	for _, answer := range []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition} {
		t.Run(answer.Message, func(t *testing.T) {
			b := startBroker(t, broker.Options{})
			cfg := testConfig(b.Addr(), "", 1)
			cfg.BatchBytes = 1
			l := openLog(t, cfg)
			h := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: answer, Topic: "scored", Count: 3})
			var m []message
			var want []string
			for i := range 10 {
				want = append(want, fmt.Sprint("value ", i))
				m = append(m, numbered(schemas.Scored, 0, int64(i), want[i]))
			}
			put(t, l, m...)
			if h.Hits() != 3 {
				t.Errorf("%d requests failed, want 3", h.Hits())
			}
			if got := lines(t, l, schemas.Scored, 0); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestEveryReplicaAcknowledges looks at what is asked of brokers. What one of them alone has is lost with it.
func TestEveryReplicaAcknowledges(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	var requests, all atomic.Int64
	b.Cluster().ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.Cluster().KeepControl()
		requests.Add(1)
		if r.(*kmsg.ProduceRequest).Acks == -1 {
			all.Add(1)
		}
		return nil, nil, false
	})
	put(t, l, pair(0, "a pair"), numbered(schemas.Scored, 0, 0, "a record"))
	if got := requests.Load(); got < 2 || all.Load() != got {
		t.Errorf("%d of %d requests wait for all replicas that are in sync", all.Load(), got)
	}
}

// TestFaultsOfTheBrokerPass runs a stage while requests of every kind fail now and then.
func TestFaultsOfTheBrokerPass(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.BatchBytes = 500
	l := openLog(t, cfg)
	const n = 200
	b.Cluster().Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.RequestTimedOut, Topic: "embeddings", Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotLeaderForPartition, Topic: "embeddings", Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Topic: "pairs", Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.UnknownTopicOrPartition, Topic: "pairs", Count: 1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.LeaderNotAvailable, Topic: "embeddings", Count: 2},
		kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.CoordinatorLoadInProgress, Count: 1},
	)
	var m []message
	for i := range n {
		m = append(m, pair(0, fmt.Sprint("pair ", i)))
	}
	put(t, l, m...)
	r := start(l, batcherSpec())
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: n - 1}, 0)
	r.stop(t)
	if got := lines(t, l, schemas.Embeddings, 0); len(got) != n || got[n-1] != fmt.Sprint("embedding of pair ", n-1) {
		t.Errorf("got %d records, the last is %q", len(got), got[len(got)-1])
	}
}

func TestPublisherHoldsItsWritersBack(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	var c Counters
	p := l.NewPublisher(PublisherOptions{MaxBytes: 10_000, Counters: &c})
	defer p.abort()
	stall, release := make(chan struct{}, 1), make(chan struct{}) // the first stall is kept until someone asks
	p.writing = func(schemas.Topic) error {
		select {
		case stall <- struct{}{}:
		default:
		}
		<-release
		return nil
	}
	m := pair(0, strings.Repeat("x", 1000))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan error)
	go func() {
		for {
			if err := p.enqueue(ctx, m); err != nil {
				held <- err
				return
			}
		}
	}()
	<-stall
	await(t, "the budget is used up", func() bool { return c.BytesInFlight.Load()+m.Size() > 10_000 })
	if got := c.BytesInFlight.Load(); got > 10_000 {
		t.Errorf("%d bytes in flight, want at most 10,000", got)
	}
	cancel()
	if err := <-held; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from a writer that is held back and cancelled", err)
	}
	close(release)
	must.Check(t, p.Flush(t.Context()))
	if got := c.BytesInFlight.Load(); got != 0 {
		t.Errorf("%d bytes in flight after all is acknowledged", got)
	}
	if put, acked := p.progress(); put != acked || c.Out.Load() != acked {
		t.Errorf("%d put, %d acknowledged, %d counted", put, acked, c.Out.Load())
	}
}

func TestPublisherTakesARecordLargerThanItsBudget(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	p := l.NewPublisher(PublisherOptions{MaxBytes: 1000})
	for range 2 {
		must.Do(t, p.enqueue(t.Context(), pair(0, strings.Repeat("x", 5<<20))))
	}
	must.Do(t, p.Close(t.Context()))
	if got := lines(t, l, schemas.Pairs, 0); len(got) != 2 || len(got[1]) != 5<<20 {
		t.Errorf("got %d records", len(got))
	}
}

func TestRecordTooLargeForItsTopic(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.MaxMessageBytes, cfg.BatchBytes, cfg.Linger = 1<<20, 1<<20, 20*time.Millisecond
	l := openLog(t, cfg)
	half := strings.Repeat("x", 1<<19)
	put(t, l, pair(0, half), pair(0, half), pair(0, half)) // a batch of two is a little too large, and is split
	if got := lines(t, l, schemas.Pairs, 0); len(got) != 3 {
		t.Errorf("got %d records, want 3", len(got))
	}
	p := l.NewPublisher(PublisherOptions{})
	err := p.enqueue(t.Context(), pair(0, strings.Repeat("x", 1<<20)))
	if !errors.Is(err, kafka.ErrTooLarge) || !strings.Contains(err.Error(), "KAFKA_MAX_MESSAGE_BYTES") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
	if err := p.enqueue(t.Context(), pair(0, "x")); err != nil {
		t.Errorf("the publisher does not go on behind it: %v", err)
	}
	must.Check(t, p.Close(t.Context()))
	if got := lines(t, l, schemas.Pairs, 0); len(got) != 4 {
		t.Errorf("got %d records, want 4", len(got))
	}

	// The topic takes less than this process knows.
	other := cfg
	other.MaxMessageBytes = 8 << 20
	l = must.Get(Connect(t.Context(), other, Options{}))(t)
	defer l.Close()
	p = l.NewPublisher(PublisherOptions{})
	must.Do(t, p.enqueue(t.Context(), pair(0, strings.Repeat("x", 1<<20))))
	if err := p.Close(t.Context()); !errors.Is(err, kafka.ErrTooLarge) || !strings.Contains(err.Error(), "KAFKA_MAX_MESSAGE_BYTES=8388608") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
	if err := p.enqueue(t.Context(), pair(0, "x")); !errors.Is(err, kafka.ErrTooLarge) {
		t.Errorf("got %v from a publisher that has failed", err)
	}
}

func TestPublishChecksSeqs(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	p := l.NewPublisher(PublisherOptions{})
	seal := &schemas.Seal{Final: true}
	if err := p.Publish(t.Context(), schemas.Groups, 0, seal); err == nil {
		t.Error("published a record without a seq to groups")
	}
	must.Check(t, p.Publish(t.Context(), schemas.Pairs, 0, seal))
	must.Check(t, p.PublishSeq(t.Context(), schemas.Groups, 0, 0, Mark{}, seal))
	must.Check(t, p.Close(t.Context()))
	for rec, err := range l.Records(t.Context(), schemas.Groups, 0, Position{}, -1) {
		must.Do(t, err)
		got, err := schemas.Unmarshal(rec.Schema, rec.Value)
		if s, ok := got.(*schemas.Seal); err != nil || !ok || !s.Final {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// TestMemoryInFlightIsBounded gives a stage much more input than it may hold, and lets it take its time. At every
// record the stage looks at how much is in flight.
func TestMemoryInFlightIsBounded(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 2)
	cfg.MaxBytesInFlight, cfg.BatchBytes = 1<<20, 32<<10
	l := openLog(t, cfg)
	value := strings.Repeat("x", 10_000)
	var m []message
	for i := range 2000 {
		m = append(m, pair(i%2, value))
	}
	put(t, l, m...)
	var peak atomic.Int64
	var c Counters
	spec := faultySpec(func(Record, Output) error {
		for now := c.BytesInFlight.Load(); ; {
			if old := peak.Load(); now <= old || peak.CompareAndSwap(old, now) {
				return nil
			}
		}
	})
	spec.Counters = &c
	r := start(l, spec)
	awaitSeqs(t, l, map[schemas.Topic]int64{schemas.Embeddings: 999}, 0, 1)
	r.stop(t)
	// A lane's input may exceed its share by one fetch, which is no larger than the share.
	if limit := cfg.MaxBytesInFlight * 3 / 2; peak.Load() > limit || peak.Load() < cfg.MaxBytesInFlight/8 {
		t.Errorf("%d bytes in flight at the peak, want at most %d, and more than nothing", peak.Load(), limit)
	}
	if c.BytesInFlight.Load() != 0 {
		t.Errorf("%d bytes in flight at the end", c.BytesInFlight.Load())
	}
}

func TestLingerGrowsWithTheBrokersTime(t *testing.T) {
	tests := map[string]struct{ linger, written, want time.Duration }{
		"quick broker":     {5 * time.Millisecond, time.Millisecond, 5 * time.Millisecond},
		"as quick":         {5 * time.Millisecond, 5 * time.Millisecond, 5 * time.Millisecond},
		"busy broker":      {5 * time.Millisecond, 30 * time.Millisecond, 30 * time.Millisecond},
		"stalled broker":   {5 * time.Millisecond, time.Minute, maxLinger},
		"longer than that": {time.Second, time.Minute, time.Second},
		"none":             {0, 30 * time.Millisecond, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := lingerAfter(tt.linger, tt.written); got != tt.want {
				t.Errorf("lingerAfter(%v) with a linger of %v = %v, want %v", tt.written, tt.linger, got, tt.want)
			}
		})
	}
}

// TestStoppedPublisherHasForgotten: who flushes a publisher that another one has stopped learns that nothing was
// acknowledged.
func TestStoppedPublisherHasForgotten(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	l := openLog(t, cfg)
	p := l.newPublisher(1<<20, newInstruments(l.metrics, "stopped", nil))
	p.writing = func(schemas.Topic) error { return errors.New("refused") }
	p.start()
	must.Do(t, p.enqueue(t.Context(), pair(0, "waiting")))
	<-p.done
	p.abort()
	if err := p.Flush(t.Context()); err == nil {
		t.Error("a record that was forgotten counts as acknowledged")
	}
	if put, acked := p.progress(); put != 1 || acked != 0 {
		t.Errorf("%d of %d records are acknowledged", acked, put)
	}
}
