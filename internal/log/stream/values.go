package stream

import (
	"context"
	"fmt"
	"iter"

	"github.com/pairstream/pairstream/schemas"
)

// As decodes a record. It reports whether the record is a readable R.
func As[R schemas.Record](rec Record) (value R, ok bool) {
	if rec.Schema != value.Schema() {
		return value, false
	}
	r, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return value, false
	}
	value, ok = r.(R)
	return value, ok
}

// Values yields every R that a lane holds now, each once. It skips records of other types. An unreadable record is an
// error.
func Values[R schemas.Record](ctx context.Context, l *Log, topic schemas.Topic, lane int) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		for rec, err := range l.Records(ctx, topic, lane, Position{}, -1) {
			if err != nil {
				yield(none, fmt.Errorf("reading lane %d of %s: %w", lane, topic, err))
				return
			}
			if rec.Schema != none.Schema() {
				continue
			}
			r, err := schemas.Unmarshal(rec.Schema, rec.Value)
			if err != nil {
				yield(none, fmt.Errorf("lane %d of %s, offset %d: %w", lane, topic, rec.Offset, err))
				return
			}
			if !yield(r.(R), nil) {
				return
			}
		}
	}
}
