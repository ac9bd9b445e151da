package stream

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/kafka"

	"github.com/pairstream/pairstream/schemas"
)

// RecordAt reads the one record at an offset, for lookups. It asks the broker once. The error of a record that
// retention has removed wraps [ErrGap].
func (l *Log) RecordAt(ctx context.Context, topic schemas.Topic, lane int, offset int64) (Record, error) {
	records, _, err := l.ReadAt(ctx, topic, lane, offset, 1)
	if kafka.NotThere(err) {
		err = fmt.Errorf("%w: %w", ErrGap, err)
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading %s, lane %d, offset %d: %w", l.Name(topic), lane, offset, err)
	}
	for _, rec := range records {
		if rec.Offset == offset && rec.Unreadable == nil {
			if !isSequenced(&rec) {
				rec.Seq = -1
			}
			return rec, nil
		}
	}
	return Record{}, fmt.Errorf("reading %s, lane %d, offset %d: %w", l.Name(topic), lane, offset, ErrGap)
}
