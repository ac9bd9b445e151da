package stream

import (
	"bytes"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

// send writes a round and keeps the order within every lane.
func (p *Publisher) send(ctx context.Context, round []message) error {
	if t := round[0].target(); !mixed(round) {
		return p.write(ctx, t.topic, t.lane, round)
	}
	var order []target
	byTarget := make(map[target][]message)
	for _, m := range round {
		t := m.target()
		if _, ok := byTarget[t]; !ok {
			order = append(order, t)
		}
		byTarget[t] = append(byTarget[t], m)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(p.parallel)
	for _, t := range order {
		g.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return p.write(ctx, t.topic, t.lane, byTarget[t])
		})
	}
	return g.Wait()
}

// mixed reports whether messages go to several topics or lanes. Most stages write to one.
func mixed(round []message) bool {
	for i := range round {
		if round[i].target() != round[0].target() {
			return true
		}
	}
	return false
}

// write writes the messages of one lane in batches, one after the other.
func (p *Publisher) write(ctx context.Context, topic schemas.Topic, lane int, messages []message) error {
	for len(messages) > 0 {
		n, bytes := 0, int64(0)
		for n < len(messages) && (n == 0 || bytes+messages[n].bytes <= int64(p.log.cfg.BatchBytes)) {
			bytes += messages[n].bytes
			n++
		}
		if err := p.writeBatch(ctx, topic, lane, messages[:n]); err != nil {
			return err
		}
		messages = messages[n:]
	}
	return nil
}

// writeBatch repeats a batch until the broker has acknowledged it. A batch whose answer was lost may be in the log
// twice.
func (p *Publisher) writeBatch(ctx context.Context, topic schemas.Topic, lane int, batch batch) error {
	if p.writing != nil {
		if err := p.writing(topic); err != nil {
			return err
		}
	}
	err := p.deliver(ctx, topic, lane, batch)
	switch {
	case kafka.TooLarge(err) && len(batch) > 1: // the topic's limit is lower than ours
		half := len(batch) / 2
		if err := p.writeBatch(ctx, topic, lane, batch[:half]); err != nil {
			return err
		}
		return p.writeBatch(ctx, topic, lane, batch[half:])
	case kafka.TooLarge(err):
		if shorter := batch[0]; shorter.cut(shorter.WireSize() / 2) {
			return p.writeBatch(ctx, topic, lane, []message{shorter})
		}
		return fmt.Errorf("%w: %d bytes: raise max.message.bytes of the topic (KAFKA_MAX_MESSAGE_BYTES=%d when it is created): %w",
			kafka.ErrTooLarge, batch[0].WireSize(), p.log.cfg.MaxMessageBytes, err)
	case err != nil:
		return err
	}
	p.instruments.acked(topic, len(batch))
	final := batch[len(batch)-1]
	final.Value, final.Headers = nil, cloned(final.Headers) // only its position is needed from here on
	p.mu.Lock()
	p.last[topic] = final
	p.mu.Unlock()
	if p.wrote != nil {
		return p.wrote(topic)
	}
	return nil
}

// deliver sends a batch until the broker has acknowledged it, or the batch is found in the log.
func (p *Publisher) deliver(ctx context.Context, topic schemas.Topic, lane int, batch batch) error {
	offset, err := p.log.Deliver(ctx, kafka.Delivery{
		Topic: topic, Lane: lane, Batch: batch, Clock: p.log.clock,
		Arrived: func(ctx context.Context) (bool, error) { return p.arrived(ctx, topic, lane, batch) },
	})
	if err != nil || offset == kafka.Unknown {
		return err
	}
	batch.at(offset)
	return p.inPlace(ctx, topic, lane, offset, batch[0].Headers)
}

// inPlace refuses a record whose offset is below its seq, where no reader would find it. In a topic without seqs the
// header does not count: a dead letter keeps the headers of its record.
func (p *Publisher) inPlace(ctx context.Context, topic schemas.Topic, lane int, offset int64, headers []kafka.Header) error {
	if !p.places || !Sequenced(topic) {
		return nil
	}
	seq, err := parseSeq(&Record{Headers: headers})
	if err != nil {
		return err
	}
	return p.log.checkPlace(ctx, topic, lane, Position{Offset: offset, Seq: seq})
}

// arrived reports whether a batch is in the log. A batch with seqs is there if its last record is. For other batches,
// and for records of outside writers beside a stage's, arrived compares the last records of the lane. If others have
// written since, it misses the batch, and the batch is written twice.
func (p *Publisher) arrived(ctx context.Context, topic schemas.Topic, lane int, batch []message) (bool, error) {
	final := &batch[len(batch)-1]
	if seq, err := parseSeq(&Record{Headers: final.Headers}); err == nil && Sequenced(topic) {
		l, err := p.log.lastRecord(ctx, topic, lane)
		if err != nil || !l.found || l.seq < seq {
			return false, err
		}
		return true, p.inPlace(ctx, topic, lane, l.rec.Offset, l.rec.Headers)
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
		if !bytes.Equal(records[i].Key, batch[i].Key) || !bytes.Equal(records[i].Value, batch[i].Value) {
			return false
		}
	}
	return true
}

// tail reads about the last most records of a lane.
func (l *Log) tail(ctx context.Context, topic schemas.Topic, lane int, most int64) ([]Record, error) {
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil {
		return nil, err
	}
	var records []Record
	_, _, err = l.LastIn(ctx, topic, lane, max(b.Start, b.End-most), b.End, func(r *Record) bool {
		records = append(records, *r)
		return true
	})
	return records, err
}
