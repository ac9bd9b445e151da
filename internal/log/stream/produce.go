package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"golang.org/x/sync/errgroup"

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

// mixed reports whether messages go to several topics or lanes. Those of most stages do not.
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

// writeBatch repeats a batch until the broker has acknowledged it. A batch whose answer got lost may be in the log
// twice.
func (p *Publisher) writeBatch(ctx context.Context, topic schemas.Topic, lane int, batch []message) error {
	if p.writing != nil {
		if err := p.writing(topic); err != nil {
			return err
		}
	}
	err := p.deliver(ctx, topic, lane, batch)
	switch {
	case errors.Is(err, kafka.MessageSizeTooLarge) && len(batch) > 1: // the topic's limit is lower than ours
		half := len(batch) / 2
		if err := p.writeBatch(ctx, topic, lane, batch[:half]); err != nil {
			return err
		}
		return p.writeBatch(ctx, topic, lane, batch[half:])
	case errors.Is(err, kafka.MessageSizeTooLarge):
		if shorter := batch[0]; shorter.cut(shorter.wireSize() / 2) {
			return p.writeBatch(ctx, topic, lane, []message{shorter})
		}
		return fmt.Errorf("%w: %d bytes: raise max.message.bytes of the topic (KAFKA_MAX_MESSAGE_BYTES=%d when it is created): %w",
			ErrTooLarge, batch[0].wireSize(), p.log.cfg.MaxMessageBytes, err)
	case err != nil:
		return err
	}
	p.instruments.acked(topic, len(batch))
	final := batch[len(batch)-1]
	final.value, final.headers = nil, cloned(final.headers) // only its place is needed from here on
	p.mu.Lock()
	p.last[topic] = final
	p.mu.Unlock()
	if p.wrote != nil {
		return p.wrote(topic)
	}
	return nil
}

// produce sends a batch once, and returns the offset at which the broker has put it.
func (p *Publisher) produce(ctx context.Context, topic schemas.Topic, lane int, batch []message, timeout time.Duration) (offset int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	room := batchRooms.Get().(*[]byte)
	r := produceRequest{Request: rawproduce.Request{Acks: int16(kafka.RequireAll), Timeout: int32((timeout / 2).Milliseconds()), Topics: []rawproduce.RequestTopic{{
		Topic: p.log.name(topic), Partitions: []rawproduce.RequestPartition{{Partition: int32(lane)}},
	}}}}
	if *room, err = r.encode((*room)[:0], batch, p.log.clock(), p.compress); err != nil {
		return 0, err
	}
	m, err := p.log.transport.RoundTrip(ctx, p.log.addr, &r)
	if err != nil {
		return 0, err // the transport may still read the room
	}
	batchRooms.Put(room)
	resp, ok := m.(*produce.Response)
	switch {
	case !ok:
		return 0, fmt.Errorf("answer to a produce request is a %T", m)
	case len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1:
		return 0, fmt.Errorf("answer to a produce request has %d topics: %w", len(resp.Topics), kafka.UnknownTopicOrPartition)
	}
	answer := &resp.Topics[0].Partitions[0]
	switch {
	case answer.ErrorCode == 0:
		return answer.BaseOffset, nil
	case answer.ErrorMessage == "":
		return 0, kafka.Error(answer.ErrorCode)
	}
	return 0, fmt.Errorf("%w: %s", kafka.Error(answer.ErrorCode), answer.ErrorMessage)
}
