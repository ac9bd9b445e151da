package stream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/schemas"
)

// message is a record on its way to the brokers.
type message struct {
	kafka.Message
	number int64   // position in the order of all messages that its publisher has taken
	bytes  int64   // its size, once it was taken over
	traced *traced // nil: nothing
}

// batch is messages of one lane.
type batch []message

// Len implements [kafka.Batch].
func (b batch) Len() int { return len(b) }

// Message implements [kafka.Batch].
func (b batch) Message(i int) *kafka.Message { return &b[i].Message }

// Publisher writes records in the background, with acks from all in-sync replicas. Records go out in rounds. A round
// takes the records that have come in since the one before, and starts when all records of that one are acknowledged
// (invariant 2). Dead letters are written beside the rounds, and hold back the records that come after them (invariant
// 7). Several goroutines may use its methods. The order of a lane is the order of the calls.
type Publisher struct {
	log         *Log
	instruments *instruments
	name        string // in spans
	budget      int64
	parallel    int                       // lanes of a round that are written at once
	linger      time.Duration             // how long the next round collects messages
	places      bool                      // fail when a record's offset is below its seq
	failed      func()                    // if set, called when writing ends with an error
	writing     func(schemas.Topic) error // if set, called around every batch: tests inject crashes
	wrote       func(schemas.Topic) error

	mu      sync.Mutex
	records backlog
	dead    backlog
	bytes   int64 // in both backlogs
	put     int64 // messages taken so far
	urgent  bool  // a caller waits: no linger
	closing bool
	stopped *int64                    // after the stop: the number of the first message without an ack
	last    map[schemas.Topic]message // the last acknowledged message
	err     error

	wake    chan struct{}
	changed chan struct{} // closed and replaced when there are acks, or an error
	cancel  context.CancelFunc
	done    chan struct{}
}

// PublisherOptions tune a publisher. The zero value is ready to use.
type PublisherOptions struct {
	MaxBytes int64     // most bytes waiting for their acks, besides one record; 0: 16 MiB
	Name     string    // name of the publisher in metrics; empty: "publisher"
	Counters *Counters // kept up to date when set
	// Places ends the publisher when a record's offset is below its seq: the topic was recreated meanwhile.
	Places bool
}

// NewPublisher starts a publisher for any lanes of any topics.
func (l *Log) NewPublisher(opts PublisherOptions) *Publisher {
	if opts.MaxBytes == 0 {
		opts.MaxBytes = 16 << 20
	}
	if opts.Name == "" {
		opts.Name = "publisher"
	}
	p := l.newPublisher(opts.MaxBytes, newInstruments(l.metrics, opts.Name, opts.Counters))
	p.parallel, p.places, p.name = 8, opts.Places, opts.Name
	p.start()
	return p
}

func (l *Log) newPublisher(budget int64, m *instruments) *Publisher {
	return &Publisher{
		log: l, instruments: m, budget: budget, parallel: 1, linger: l.cfg.Linger,
		wake: make(chan struct{}, 1), changed: make(chan struct{}), last: make(map[schemas.Topic]message), done: make(chan struct{}),
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

// PublishBytes queues an encoded value, valid or not. A reader sets invalid ones aside.
func (p *Publisher) PublishBytes(ctx context.Context, topic schemas.Topic, lane int, schema string, value []byte) error {
	if Sequenced(topic) {
		return errUnnumbered(topic)
	}
	return p.enqueue(ctx, p.traceBytes(unnumbered(topic, lane, schema, value), schema))
}

func errUnnumbered(topic schemas.Topic) error {
	return fmt.Errorf("publishing to %s: its records need seqs", topic)
}

func unnumbered(topic schemas.Topic, lane int, schema string, value []byte) message {
	return message{Message: kafka.Message{Topic: topic, Lane: lane, Value: value, Headers: []kafka.Header{{Key: schemas.HeaderSchema, Value: []byte(schema)}}}}
}

// PublishSeq queues record seq of a lane. The caller numbers the records without gaps, from [Log.LastSeq] or from
// before it.
func (p *Publisher) PublishSeq(ctx context.Context, topic schemas.Topic, lane int, seq int64, resume Mark, rec schemas.Record) error {
	value, err := schemas.Marshal(rec)
	if err != nil {
		return err
	}
	return p.enqueue(ctx, p.trace(ctx, rec, sequenced(topic, lane, seq, resume, rec.Schema(), value)))
}

func sequenced(topic schemas.Topic, lane int, seq int64, resume Mark, schema string, value []byte) message {
	return new(slab).sequenced(topic, lane, seq, resume, schema, value)
}

// enqueue takes m. It blocks while too many bytes are waiting. It shortens a dead letter that its topic would refuse.
func (p *Publisher) enqueue(ctx context.Context, m message) error {
	limit := int64(p.log.MaxMessage(m.Topic))
	m.cut(limit)
	if !p.log.Compresses() {
		if err := p.log.takes(&m, limit); err != nil {
			return err
		}
	}
	n := m.Size()
	m.bytes = n
	for {
		p.mu.Lock()
		if p.closing || p.err != nil {
			err := p.err
			if interrupt.Failure(err) == nil {
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
	m.number = p.put
	p.put++
	p.bytes += n
	p.instruments.addBytes(n)
	first, full := p.backlogOf(m.Topic).add(m), p.bytes >= int64(p.log.cfg.BatchBytes)
	p.mu.Unlock()
	if first || full {
		signal(p.wake)
	}
	return nil
}

// Takes returns [kafka.ErrTooLarge] for a value that its topic may refuse. A publisher with compression tries it
// anyway, and ends if the topic refuses it.
func (l *Log) Takes(topic schemas.Topic, lane int, schema string, value []byte) error {
	m := unnumbered(topic, lane, schema, value)
	return l.takes(&m, int64(l.MaxMessage(topic)))
}

func (l *Log) takes(m *message, limit int64) error {
	if size := m.WireSize(); size > limit {
		return fmt.Errorf("%w: %d bytes for %s, lane %d, which takes %d: raise max.message.bytes of the topic, KAFKA_MAX_MESSAGE_BYTES when it is created",
			kafka.ErrTooLarge, size, l.Name(m.Topic), m.Lane, limit)
	}
	return nil
}

var errPublisherClosed = errors.New("publisher is closed")

// Flush waits until all earlier records are acknowledged.
func (p *Publisher) Flush(ctx context.Context) error {
	p.mu.Lock()
	upTo := p.put
	for p.acked() < upTo && p.err == nil {
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
	if p.acked() < upTo {
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

// abort stops the publisher as a crash would. Queued messages are dropped. Messages in flight may arrive or not.
func (p *Publisher) abort() {
	p.cancel()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = new(p.acked()) // dropped messages are not acknowledged
	p.instruments.addBytes(-p.bytes)
	p.bytes, p.records, p.dead = 0, backlog{}, backlog{}
}

// progress returns the number of messages taken, and the number acknowledged together with all before them.
func (p *Publisher) progress() (put, acked int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.put, p.acked()
}

// setBudget changes the most bytes that may wait.
func (p *Publisher) setBudget(budget int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = budget
}

// lastAcked returns the last acknowledged message of a topic.
func (p *Publisher) lastAcked(t schemas.Topic) (message, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.last[t]
	return m, ok
}

// failure returns the error that ended the publisher, nil while it runs.
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
