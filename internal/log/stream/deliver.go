package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// maxAckTimeout is the longest wait for an ack.
const maxAckTimeout = 5 * time.Minute

// deliver sends a batch until the broker has acknowledged it. When an answer is lost or late, the batch may be in the
// log all the same. So deliver looks for it there, and the next answer may take twice as long. Otherwise a broker
// whose acks take longer than the timeout would append the batch again without end.
func (p *Publisher) deliver(ctx context.Context, topic schemas.Topic, lane int, batch []message) error {
	var pause backoff
	what, timeout := fmt.Sprintf("writing to %s, lane %d", p.log.name(topic), lane), p.log.cfg.RequestTimeout
	for {
		offset, err := p.produce(ctx, topic, lane, batch, timeout)
		switch {
		case err == nil:
			return p.inPlace(ctx, topic, lane, offset, batch[0].headers)
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case !passes(err):
			return fmt.Errorf("%s: %w", what, err)
		}
		pause.warn(p.log.logger, what, err)
		if pause.tries == reconnectAfter {
			p.log.reconnect(what)
		}
		if pause.wait(ctx) != nil {
			return fmt.Errorf("%s: %w (last: %v)", what, ctx.Err(), err) //nolint:errorlint // it passes: the interruption alone ends this
		}
		if answered(err) {
			continue
		}
		timeout = min(2*timeout, maxAckTimeout)
		there, err := p.arrived(ctx, topic, lane, batch)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if there {
			return nil
		}
	}
}

// inPlace refuses a record that was put before its place, where nobody reads it. In a topic without seqs no record has one,
// whatever its headers say: a dead letter keeps those of the record that was set aside.
func (p *Publisher) inPlace(ctx context.Context, topic schemas.Topic, lane int, offset int64, headers []header) error {
	if !p.places || !Sequenced(topic) {
		return nil
	}
	seq, err := parseSeq(&Record{headers: headers})
	if err != nil {
		return err
	}
	return p.log.checkPlace(ctx, topic, lane, Position{Offset: offset, Seq: seq})
}

// answered reports whether a broker has said that it did not append.
func answered(err error) bool {
	var refused kafka.Error
	return errors.As(err, &refused) && !errors.Is(err, kafka.RequestTimedOut)
}

// arrived reports whether a batch is in the log. A batch with seqs is there when its last record is. For others, and for
// what an outside writer puts beside a stage's records, arrived reads the last records of the lane. It takes a batch that
// others have written over for missing, and the batch is written twice.
func (p *Publisher) arrived(ctx context.Context, topic schemas.Topic, lane int, batch []message) (bool, error) {
	final := &batch[len(batch)-1]
	if seq, err := parseSeq(&Record{headers: final.headers}); err == nil && Sequenced(topic) {
		l, err := p.log.lastRecord(ctx, topic, lane)
		if err != nil || !l.found || l.seq < seq {
			return false, err
		}
		return true, p.inPlace(ctx, topic, lane, l.rec.Offset, l.rec.headers)
	}
	tail, err := p.log.tail(ctx, topic, lane, max(4*int64(len(batch)), 64))
	if err != nil {
		return false, err
	}
	for from := len(tail) - len(batch); from >= 0; from-- {
		if sameRecords(tail[from:from+len(batch)], batch) {
			return true, nil
		}
	}
	return false, nil
}

func sameRecords(records []Record, batch []message) bool {
	for i := range batch {
		if !bytes.Equal(records[i].key, batch[i].key) || !bytes.Equal(records[i].Value, batch[i].value) {
			return false
		}
	}
	return true
}

// tail reads the last records of a lane, about most of them.
func (l *Log) tail(ctx context.Context, topic schemas.Topic, lane int, most int64) ([]Record, error) {
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil {
		return nil, err
	}
	var records []Record
	f := &fetcher{log: l, topic: topic, lane: lane, budget: maxFetchBytes}
	_, _, err = l.lastIn(ctx, f, max(b.Start, b.End-most), b.End, func(r *Record) bool {
		records = append(records, *r)
		return true
	})
	return records, err
}
