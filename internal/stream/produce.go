package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/schemas"
)

// send writes a round, every lane in order.
func (p *Publisher) send(ctx context.Context, round []message) error {
	type target struct {
		topic schemas.Topic
		lane  int
	}
	var order []target
	byTarget := make(map[target][]message)
	for _, m := range round {
		t := target{m.topic, m.lane}
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

// writeBatch repeats a batch until the broker has acknowledged it. One whose answer got lost may be in the log twice.
func (p *Publisher) writeBatch(ctx context.Context, topic schemas.Topic, lane int, batch []message) error {
	if p.writing != nil {
		if err := p.writing(topic); err != nil {
			return err
		}
	}
	name := p.log.name(topic)
	err := p.log.retry(ctx, fmt.Sprintf("writing to %s, lane %d", name, lane), func(ctx context.Context) error {
		return p.produce(ctx, name, lane, batch)
	})
	switch {
	case errors.Is(err, kafka.MessageSizeTooLarge) && len(batch) > 1: // the topic's limit is lower than ours
		half := len(batch) / 2
		if err := p.writeBatch(ctx, topic, lane, batch[:half]); err != nil {
			return err
		}
		return p.writeBatch(ctx, topic, lane, batch[half:])
	case errors.Is(err, kafka.MessageSizeTooLarge):
		return fmt.Errorf("record of %d bytes: raise max.message.bytes of the topic (KAFKA_MAX_MESSAGE_BYTES=%d when it is created): %w",
			len(batch[0].value), p.log.cfg.MaxMessageBytes, err)
	case err != nil:
		return err
	}
	p.meter.acked(topic, len(batch))
	if p.wrote != nil {
		return p.wrote(topic)
	}
	return nil
}

func (p *Publisher) produce(ctx context.Context, name string, lane int, batch []message) error {
	records, now := make([]kafka.Record, len(batch)), p.log.clock()
	for i, m := range batch {
		records[i] = kafka.Record{Time: now, Key: kafka.NewBytes(m.key), Value: kafka.NewBytes(m.value), Headers: m.headers}
	}
	client := kafka.Client{Addr: p.log.addr, Transport: p.log.transport, Timeout: p.log.cfg.RequestTimeout}
	resp, err := client.Produce(ctx, &kafka.ProduceRequest{
		Topic: name, Partition: lane, RequiredAcks: kafka.RequireAll, Compression: p.compress,
		Records: kafka.NewRecordReader(records...),
	})
	if err != nil {
		return err
	}
	return resp.Error
}
