package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// RecordAt reads the one record at an offset, for lookups. It asks the broker once. The error of a record that
// retention has removed wraps [ErrGap].
func (l *Log) RecordAt(ctx context.Context, topic schemas.Topic, lane int, offset int64) (Record, error) {
	f := &fetcher{log: l, topic: topic, lane: lane, budget: 1}
	records, _, err := f.fetch(ctx, offset)
	if errors.Is(err, kafka.OffsetOutOfRange) {
		err = fmt.Errorf("%w: %w", ErrGap, err)
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading %s, lane %d, offset %d: %w", l.name(topic), lane, offset, err)
	}
	for _, rec := range records {
		if rec.Offset == offset && rec.unreadable == nil {
			schema, _ := rec.Header(schemas.HeaderSchema)
			rec.Schema = known(schema, "")
			if !isSequenced(&rec) {
				rec.Seq = -1
			}
			return rec, nil
		}
	}
	return Record{}, fmt.Errorf("reading %s, lane %d, offset %d: %w", l.name(topic), lane, offset, ErrGap)
}

// DeadLetter reads a record of the topic dead-letters.
func (r Record) DeadLetter() (DeadLetter, error) { return parseDeadLetter(r) }
