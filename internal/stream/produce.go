package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
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
		for n < len(messages) && (n == 0 || bytes+messages[n].size() <= int64(p.log.cfg.BatchBytes)) {
			bytes += messages[n].size()
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
	final.value = nil // only its place is needed from here on
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
	raw, err := appendBatch(append((*room)[:0], 0, 0, 0, 0), batch, p.log.clock(), p.compress)
	if err != nil {
		return 0, err
	}
	binary.BigEndian.PutUint32(raw, uint32(len(raw)-4))
	*room = raw
	client := kafka.Client{Addr: p.log.addr, Transport: p.log.transport, Timeout: timeout}
	resp, err := client.RawProduce(ctx, &kafka.RawProduceRequest{
		Topic: p.log.name(topic), Partition: lane, RequiredAcks: kafka.RequireAll,
		RawRecords: protocol.RawRecordSet{Reader: bytes.NewReader(raw)},
	})
	if err != nil {
		return 0, err // the transport may still read the room
	}
	batchRooms.Put(room)
	return resp.BaseOffset, resp.Error
}
