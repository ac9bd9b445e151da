package stream

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/schemas"
)

// backlog holds a publisher's unacknowledged messages of one kind, in the order of their numbers.
type backlog struct {
	room    []message // empty, with the array of waiting
	waiting []message
	sending []message // not acknowledged yet
}

// add appends a message. It reports whether nothing was waiting before. When half of a full array is free, it moves the
// waiting messages to the beginning.
func (q *backlog) add(m message) bool {
	if n := len(q.waiting); n == cap(q.waiting) {
		if 2*n <= cap(q.room) {
			copy(q.room[:n], q.waiting)
			clear(q.waiting)
			q.waiting = q.room[:n]
		} else {
			q.waiting = slices.Grow(q.waiting, n+1)
			q.room = q.waiting[:0]
		}
	}
	q.waiting = append(q.waiting, m)
	return len(q.waiting) == 1
}

// oldest returns the number of the first message without an ack, or next if there is none.
func (q *backlog) oldest(next int64) int64 {
	switch {
	case len(q.sending) > 0:
		return q.sending[0].number
	case len(q.waiting) > 0:
		return q.waiting[0].number
	}
	return next
}

// target is the destination of messages: batches of one target are written one after the other.
type target struct {
	topic schemas.Topic
	lane  int
}

func (m *message) target() target { return target{m.Topic, m.Lane} }

// reach counts the waiting messages with numbers up to limit, and their bytes. It stops before a target has more than
// one batch, so that no target keeps the others of a round waiting. It also stops before all targets together have more
// than parallel batches. A first message may be larger. held means that the limit stopped it.
func (q *backlog) reach(limit, batch int64, parallel int) (n int, bytes int64, held bool) {
	var of map[target]int64
	if parallel > 1 {
		of = make(map[target]int64, parallel)
	}
	for i := range q.waiting {
		m := &q.waiting[i]
		if m.number > limit {
			return n, bytes, true
		}
		size := m.bytes
		if n > 0 && bytes+size > batch*int64(parallel) {
			break
		}
		if parallel > 1 {
			t := m.target()
			if of[t] > 0 && of[t]+size > batch {
				break
			}
			of[t] += size
		}
		n, bytes = n+1, bytes+size
	}
	return n, bytes, false
}

// send moves the first n waiting messages to sending.
func (q *backlog) send(n int) []message {
	q.sending = append(q.sending, q.waiting[:n]...)
	clear(q.waiting[:n])
	q.waiting = q.waiting[n:]
	return q.sending
}

// forget drops the messages that were sent.
func (q *backlog) forget() {
	clear(q.sending)
	q.sending = q.sending[:0]
}

func (p *Publisher) backlogOf(topic schemas.Topic) *backlog {
	if topic == schemas.DeadLetters {
		return &p.dead
	}
	return &p.records
}

// acked returns the number of the first message without an ack. Dead letters may be ahead of records.
func (p *Publisher) acked() int64 {
	if p.stopped != nil {
		return *p.stopped
	}
	return min(p.records.oldest(p.put), p.dead.oldest(p.put))
}

// run writes until it fails.
func (p *Publisher) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for {
			round, dead, err := p.nextRound(ctx)
			if err != nil {
				return err
			}
			if len(dead) > 0 {
				g.Go(func() error {
					if err := p.write(ctx, schemas.DeadLetters, 0, dead); err != nil {
						return err
					}
					p.sent(&p.dead)
					return nil
				})
			}
			if len(round) == 0 {
				continue
			}
			begun := time.Now()
			if err := p.send(ctx, round); err != nil {
				return err
			}
			p.linger = lingerAfter(p.log.cfg.Linger, time.Since(begun))
			p.sent(&p.records)
		}
	})
	return g.Wait()
}

// maxLinger bounds the time that a slow broker adds to a record in one stage.
const maxLinger = 50 * time.Millisecond

// lingerAfter returns how long to collect messages for the next round, given how long the last one took to write. A
// busy broker then gets fewer and larger requests; each costs it a sync of its files.
func lingerAfter(least, written time.Duration) time.Duration {
	if least == 0 {
		return 0
	}
	return max(least, min(written, maxLinger))
}

// sent marks the messages in sending as acknowledged.
func (p *Publisher) sent(q *backlog) {
	var n int64
	p.mu.Lock()
	for i := range q.sending {
		n += q.sending[i].bytes
		p.published(&q.sending[i])
	}
	q.forget()
	p.bytes -= n
	p.instruments.addBytes(-n) // before Flush returns
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	signal(p.wake) // records may have waited for a dead letter
}

// nextRound waits until there is something to write. After the first message it waits a little for others.
func (p *Publisher) nextRound(ctx context.Context) (round, dead []message, err error) {
	var linger <-chan time.Time
	for {
		p.mu.Lock()
		if p.bytes >= int64(p.log.cfg.BatchBytes) || p.urgent || p.log.cfg.Linger == 0 {
			round, dead = p.take()
		}
		took, idle := len(round)+len(dead) > 0, len(p.records.waiting)+len(p.dead.waiting) == 0
		if took || idle {
			p.urgent = false
		}
		if took {
			p.mu.Unlock()
			return round, dead, nil
		}
		if !idle && linger == nil {
			t := time.NewTimer(p.linger)
			defer t.Stop()
			linger = t.C
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-p.wake:
		case <-linger:
			p.mu.Lock()
			p.urgent = true
			p.mu.Unlock()
		}
	}
}

// take returns a round of records that no dead letter without an ack precedes (invariant 7). It also returns the dead
// letters that hold back records.
//
// A request costs about the same however small it is. So a round of less than half a batch waits for the dead letters
// that hold back the rest. When batches fill without waiting, the dead letters go out beside the last batch before
// them, and their acks arrive before the next batch is due. With fewer records, they would only make rounds smaller.
func (p *Publisher) take() (round, dead []message) {
	batch, limit := int64(p.log.cfg.BatchBytes), p.dead.oldest(p.put)
	n, bytes, held := p.records.reach(limit, batch, p.parallel)
	if !held || bytes >= batch/2 {
		round = p.records.send(n)
	}
	if len(p.dead.sending) > 0 {
		return round, nil
	}
	if _, _, held = p.records.reach(limit, batch, 1); len(round) == 0 || held && p.bytes-bytes >= batch {
		dead = p.dead.send(len(p.dead.waiting))
	}
	return round, dead
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
