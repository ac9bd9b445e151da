package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// message is a record on its way to the broker.
type message struct {
	topic   schemas.Topic
	lane    int
	key     []byte
	value   []byte
	headers []header
}

func (m *message) size() int64 {
	n := int64(len(m.value)) + int64(len(m.key)) + recordOverhead
	for _, h := range m.headers {
		n += int64(len(h.Value))
	}
	return n
}

// Publisher writes records in the background, with acks from all in-sync replicas. Records go out in rounds: a round
// takes what has come in since the one before, and nothing of it is sent before every record of the one before has
// been acknowledged (invariant 2). Its methods may be used by several goroutines; the order of a lane is that in which
// they are called.
type Publisher struct {
	log      *Log
	meter    *meter
	budget   int64
	parallel int           // lanes of a round that are written at once
	linger   time.Duration // for the next round to come together
	compress kafka.Compression
	failed   func()                    // called when writing ends with an error, if set
	writing  func(schemas.Topic) error // called around every batch, if set: tests inject crashes
	wrote    func(schemas.Topic) error

	mu      sync.Mutex
	queue   []message
	bytes   int64 // queued and in the current round
	put     int64 // messages taken over so far
	acked   int64
	urgent  bool // someone waits: no linger
	closing bool
	err     error

	wake    chan struct{}
	changed chan struct{} // closed and replaced when acked, bytes or err change
	cancel  context.CancelFunc
	done    chan struct{}
}

// PublisherOptions tune a publisher; the zero value is good.
type PublisherOptions struct {
	MaxBytes int64     // most bytes waiting for their acks, besides one record; 0: 16 MiB
	Name     string    // what to call the publisher in metrics; empty: "publisher"
	Counters *Counters // kept up to date when set
}

// NewPublisher starts a publisher for any lanes of any topics.
func (l *Log) NewPublisher(opts PublisherOptions) *Publisher {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 16 << 20
	}
	if opts.Name == "" {
		opts.Name = "publisher"
	}
	p := l.newPublisher(opts.MaxBytes, newMeter(l.metrics, opts.Name, opts.Counters))
	p.parallel = 8
	p.start()
	return p
}

func (l *Log) newPublisher(budget int64, m *meter) *Publisher {
	codec, err := compression(l.cfg.Compression)
	if err != nil {
		panic(err) // Connect has validated it
	}
	return &Publisher{
		log: l, meter: m, budget: budget, parallel: 1, linger: l.cfg.Linger, compress: codec,
		wake: make(chan struct{}, 1), changed: make(chan struct{}), done: make(chan struct{}),
	}
}

func (p *Publisher) start() {
	ctx, cancel := context.WithCancel(context.Background()) // ends with Close or abort
	p.cancel = cancel
	go func() {
		defer close(p.done)
		p.fail(p.run(ctx))
	}()
}

// Publish queues a record without a seq: a pair, or a report of progress.
func (p *Publisher) Publish(ctx context.Context, topic schemas.Topic, lane int, rec schemas.Record) error {
	value, err := schemas.Marshal(rec)
	if err != nil {
		return err
	}
	return p.PublishBytes(ctx, topic, lane, rec.Schema(), value)
}

// PublishBytes is Publish for a value that is encoded already, valid or not: what is not will be set aside by its reader.
func (p *Publisher) PublishBytes(ctx context.Context, topic schemas.Topic, lane int, schema string, value []byte) error {
	if Sequenced(topic) {
		return fmt.Errorf("publishing to %s: its records need seqs", topic)
	}
	return p.enqueue(ctx, message{topic: topic, lane: lane, value: value, headers: []header{
		{Key: schemas.HeaderSchema, Value: []byte(schema)},
	}})
}

// PublishSeq queues record seq of a lane. The caller numbers them: without gaps, from [Log.LastSeq] or from before it.
func (p *Publisher) PublishSeq(ctx context.Context, topic schemas.Topic, lane int, seq int64, resume Mark, rec schemas.Record) error {
	value, err := schemas.Marshal(rec)
	if err != nil {
		return err
	}
	return p.enqueue(ctx, sequenced(topic, lane, seq, resume, rec.Schema(), value))
}

func sequenced(topic schemas.Topic, lane int, seq int64, resume Mark, schema string, value []byte) message {
	var room [256]byte // one allocation for all three headers
	raw := append(room[:0], schema...)
	a := len(raw)
	raw = strconv.AppendInt(raw, seq, 10)
	b := len(raw)
	raw = slices.Clone(appendMark(raw, resume))
	return message{topic: topic, lane: lane, value: value, headers: []header{
		{Key: schemas.HeaderSchema, Value: raw[:a:a]},
		{Key: schemas.HeaderSeq, Value: raw[a:b:b]},
		{Key: schemas.HeaderSource, Value: raw[b:]},
	}}
}

// enqueue takes over m; it blocks while too many bytes are waiting.
func (p *Publisher) enqueue(ctx context.Context, m message) error {
	n := m.size()
	for {
		p.mu.Lock()
		if p.closing || p.err != nil {
			err := p.err
			if err == nil || errors.Is(err, context.Canceled) {
				err = errPublisherClosed
			}
			p.mu.Unlock()
			return err
		}
		if p.bytes == 0 || p.bytes+n <= p.budget {
			break
		}
		p.urgent = true
		changed := p.changed
		p.mu.Unlock()
		signal(p.wake)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
	p.queue = append(p.queue, m)
	p.bytes += n
	p.put++
	first, full := len(p.queue) == 1, p.bytes >= int64(p.log.cfg.BatchBytes)
	p.mu.Unlock()
	p.meter.addBytes(n)
	if first || full {
		signal(p.wake)
	}
	return nil
}

var errPublisherClosed = errors.New("publisher is closed")

// Flush waits until everything that was published before is acknowledged.
func (p *Publisher) Flush(ctx context.Context) error {
	p.mu.Lock()
	upTo := p.put
	for p.acked < upTo && p.err == nil {
		p.urgent = true
		changed := p.changed
		p.mu.Unlock()
		signal(p.wake)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
		p.mu.Lock()
	}
	defer p.mu.Unlock()
	if p.acked < upTo {
		return p.err
	}
	return nil
}

// Close flushes and stops the publisher.
func (p *Publisher) Close(ctx context.Context) error {
	err := p.Flush(ctx)
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.abort()
	return err
}

// abort stops the publisher as a crash would: what is queued is forgotten, what is on its way may arrive or not.
func (p *Publisher) abort() {
	p.cancel()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.meter.addBytes(-p.bytes)
	p.bytes, p.queue = 0, nil
}

// progress returns how many messages were taken over and acknowledged.
func (p *Publisher) progress() (put, acked int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put, p.acked
}

// setBudget changes the most bytes that may wait.
func (p *Publisher) setBudget(budget int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = budget
}

// failure is what ended the publisher, nil while it runs.
func (p *Publisher) failure() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *Publisher) fail(err error) {
	p.mu.Lock()
	p.err = err
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if p.failed != nil {
		p.failed()
	}
}

func (p *Publisher) run(ctx context.Context) error {
	for {
		round, err := p.nextRound(ctx)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := p.send(ctx, round); err != nil {
			return err
		}
		p.linger = p.log.cfg.lingerAfter(time.Since(begun))
		var n int64
		for i := range round {
			n += round[i].size()
		}
		p.mu.Lock()
		p.acked += int64(len(round))
		p.bytes -= n
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
		p.meter.addBytes(-n)
	}
}

// maxLinger bounds what a slow broker adds to a record's time in one stage.
const maxLinger = 50 * time.Millisecond

// lingerAfter is how long the round after one that took this long to be written comes together: a broker that is busy
// gets fewer and larger requests, each of which costs it a sync of its files.
func (c *Config) lingerAfter(written time.Duration) time.Duration {
	if c.Linger == 0 {
		return 0
	}
	return max(c.Linger, min(written, maxLinger))
}

// nextRound waits for messages, a little longer than for the first, and takes all that are there.
func (p *Publisher) nextRound(ctx context.Context) ([]message, error) {
	var linger <-chan time.Time
	for {
		p.mu.Lock()
		full := p.bytes >= int64(p.log.cfg.BatchBytes) || p.urgent || p.log.cfg.Linger == 0
		if len(p.queue) > 0 && full {
			round := p.queue
			p.queue, p.urgent = nil, false
			p.mu.Unlock()
			return round, nil
		}
		if len(p.queue) == 0 {
			p.urgent = false
		} else if linger == nil {
			t := time.NewTimer(p.linger)
			defer t.Stop()
			linger = t.C
		}
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.wake:
		case <-linger:
			p.mu.Lock()
			p.urgent = true
			p.mu.Unlock()
		}
	}
}
