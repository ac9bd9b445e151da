package stream

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func setAside(offset int) message {
	rec := Record{Topic: schemas.Pairs, Offset: int64(offset), Value: []byte("bad")}
	return deadLetter("test", rec, "test: it is bad")
}

// TestRecordsWaitForTheDeadLettersBeforeThem checks invariant 7 at every batch, each of one record. It holds up the
// first dead letter until the records before it are in the log. Those records do not wait for it.
func TestRecordsWaitForTheDeadLettersBeforeThem(t *testing.T) {
	b := startBroker(t, broker.Options{})
	for _, seed := range []uint64{1, 2, 3} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			cfg := testConfig(b.Addr(), fmt.Sprint("aside-", seed), 1)
			cfg.BatchBytes = 1
			l := openLog(t, cfg)
			r := rand.New(rand.NewPCG(seed, 0))
			const n, first = 300, 5
			var messages []message
			var before []int // for each record, how many dead letters there are before it
			var want []string
			dead := 0
			for i := range n {
				if i == first || i > first && r.IntN(4) == 0 {
					messages = append(messages, setAside(i))
					dead++
					continue
				}
				messages = append(messages, pair(0, fmt.Sprint("pair ", i)))
				want = append(want, fmt.Sprint("pair ", i))
				before = append(before, dead)
			}
			var mu sync.Mutex
			begun, written := map[schemas.Topic]int{}, map[schemas.Topic]int{}
			free := make(chan struct{})
			p := l.newPublisher(1<<20, newInstruments(l.metrics, "test", nil))
			p.writing = func(topic schemas.Topic) error {
				mu.Lock()
				i := begun[topic]
				begun[topic]++
				if topic == schemas.Pairs && written[schemas.DeadLetters] < before[i] {
					t.Errorf("record %d is written when %d of the %d dead letters before it are", i, written[schemas.DeadLetters], before[i])
				}
				mu.Unlock()
				if topic == schemas.DeadLetters && i == 0 {
					<-free
				}
				return nil
			}
			p.wrote = func(topic schemas.Topic) error {
				mu.Lock()
				defer mu.Unlock()
				if written[topic]++; topic == schemas.Pairs && written[topic] == first {
					close(free)
				}
				return nil
			}
			p.start()
			for _, m := range messages {
				must.Do(t, p.enqueue(t.Context(), m))
			}
			must.Do(t, p.Close(t.Context()))
			if got := lines(t, l, schemas.Pairs, 0); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := len(lines(t, l, schemas.DeadLetters, 0)); got != dead {
				t.Errorf("got %d dead letters, want %d", got, dead)
			}
		})
	}
}

// TestAcksOfDeadLettersDoNotCountForRecords lets a dead letter get its ack while the record before it has none.
func TestAcksOfDeadLettersDoNotCountForRecords(t *testing.T) {
	b := startBroker(t, broker.Options{})
	cfg := testConfig(b.Addr(), "", 1)
	cfg.BatchBytes = 1
	l := openLog(t, cfg)
	p := l.newPublisher(1<<20, newInstruments(l.metrics, "test", nil))
	free, acked := make(chan struct{}), make(chan struct{})
	p.writing = func(topic schemas.Topic) error {
		if topic == schemas.Pairs {
			<-free
		}
		return nil
	}
	p.wrote = func(topic schemas.Topic) error {
		if topic == schemas.DeadLetters {
			close(acked)
		}
		return nil
	}
	// All messages are there when the first round begins.
	for _, m := range []message{pair(0, "pair"), setAside(0), pair(0, "another")} {
		must.Do(t, p.enqueue(t.Context(), m))
	}
	p.start()
	<-acked
	await(t, "the ack is noted", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.dead.oldest(p.put) == p.put
	})
	if put, acked := p.progress(); put != 3 || acked != 0 {
		t.Errorf("%d put, %d acknowledged, want 3 and 0", put, acked)
	}
	close(free)
	must.Check(t, p.Flush(t.Context()))
	if put, acked := p.progress(); put != 3 || acked != 3 {
		t.Errorf("%d put, %d acknowledged, want 3 and 3", put, acked)
	}
	must.Check(t, p.Close(t.Context()))
}

// TestDeadLetterThatCannotBeWritten ends the publisher although its records could be.
func TestDeadLetterThatCannotBeWritten(t *testing.T) {
	b := startBroker(t, broker.Options{})
	l := openLog(t, testConfig(b.Addr(), "", 1))
	p := l.newPublisher(1<<20, newInstruments(l.metrics, "test", nil))
	failed := make(chan struct{})
	p.failed = func() { close(failed) }
	p.writing = func(topic schemas.Topic) error {
		if topic == schemas.DeadLetters {
			return errCrash
		}
		return nil
	}
	p.start()
	defer p.abort()
	must.Do(t, p.enqueue(t.Context(), setAside(0)))
	<-failed
	for what, err := range map[string]error{
		"a record after it": p.enqueue(t.Context(), pair(0, "pair")), "a flush": p.Flush(t.Context()), "the publisher": p.failure(),
	} {
		if err == nil || err.Error() != errCrash.Error() {
			t.Errorf("%s: got %v, want %v", what, err, errCrash)
		}
	}
}

// TestReach checks what a round takes of messages of 300 bytes, with batches of three of them.
func TestReach(t *testing.T) {
	of := func(bytes int, lanes ...int) (q backlog) {
		for i, lane := range lanes {
			m := message{number: int64(i), Message: kafka.Message{Topic: schemas.Pairs, Lane: lane}}
			m.Value = make([]byte, bytes-int(m.Size()))
			m.bytes = m.Size()
			q.add(m)
		}
		return q
	}
	for name, c := range map[string]struct {
		q        backlog
		limit    int64
		parallel int
		n        int
		held     bool
	}{
		"a batch of each of four lanes": {of(300, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3), 99, 8, 12, false},
		"a batch of the only lane":      {of(300, 0, 0, 0, 0, 0), 99, 8, 3, false},
		"up to the lane that is full":   {of(300, 0, 1, 0, 0, 0, 1), 99, 8, 4, false},
		"all batches together":          {of(300, 0, 0, 0, 1, 1, 1, 2, 2, 2), 99, 2, 6, false},
		"one batch, whatever the lanes": {of(300, 0, 1, 2, 3), 99, 1, 3, false},
		"exactly all that waits":        {of(300, 0, 0, 0), 99, 8, 3, false},
		"large ones, one of a lane":     {of(901, 0, 1, 0), 99, 8, 2, false},
		"a large one alone":             {of(901, 0, 1), 99, 1, 1, false},
		"what a dead letter holds back": {of(300, 0, 1, 2, 3), 1, 8, 2, true},
		"nothing":                       {of(300), 99, 8, 0, false},
	} {
		n, bytes, held := c.q.reach(c.limit, 900, c.parallel)
		if n != c.n || held != c.held || n > 0 && bytes != int64(n)*c.q.waiting[0].Size() {
			t.Errorf("%s: got %d messages of %d bytes, held %v, want %d, %v", name, n, bytes, held, c.n, c.held)
		}
	}
}

// TestBacklogKeepsOrder adds, sends and forgets messages at random. They leave in their order, whatever moves in the
// array.
func TestBacklogKeepsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q backlog
	var put, sent int64
	for range 5000 {
		switch {
		case r.IntN(3) > 0:
			for range r.IntN(20) {
				if first := q.add(message{number: put}); first != (put == sent) {
					t.Fatalf("message %d is the first that waits: %v", put, first)
				}
				put++
			}
		case len(q.sending) > 0:
			q.forget()
		default:
			for _, m := range q.send(r.IntN(len(q.waiting) + 1)) {
				if m.number != sent {
					t.Fatalf("message %d was sent in place of %d", m.number, sent)
				}
				sent++
			}
		}
		if want := sent - int64(len(q.sending)); q.oldest(put) != want {
			t.Fatalf("the oldest is %d, want %d", q.oldest(put), want)
		}
	}
	if sent == 0 || cap(q.room) > 4096 {
		t.Errorf("%d messages were sent, and the array has room for %d", sent, cap(q.room))
	}
}
