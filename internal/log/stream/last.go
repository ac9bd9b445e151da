package stream

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/schemas"
)

// last describes where a stage stopped, in one lane of one output.
type last struct {
	found bool
	seq   int64
	mark  Mark
	rec   Record
}

// lastRecord reads where a stage stopped: the last record of a lane that carries a seq and a mark (invariants 4 and 6),
// and that no operator has declared foreign. Usually that is the very last one.
func (l *Log) lastRecord(ctx context.Context, topic schemas.Topic, lane int) (last, error) {
	skips, err := l.skipsOf(ctx, topic, lane)
	if err != nil {
		return last{}, err
	}
	rec, found, err := l.LastWhere(ctx, topic, lane, func(rec *Record) bool {
		return isSequenced(rec) && !declaredForeign(skips, rec.Offset)
	})
	if err != nil {
		return last{}, err
	}
	if !found {
		return last{}, l.checkNeverWritten(ctx, topic, lane)
	}
	mark, err := MarkOf(rec)
	return last{found: err == nil, seq: rec.Seq, mark: mark, rec: rec}, err
}

// checkNeverWritten refuses a lane whose records are all gone. A stage that restarted it would number its records from
// 0, and its readers would take them for repetitions.
func (l *Log) checkNeverWritten(ctx context.Context, topic schemas.Topic, lane int) error {
	b, err := l.Bounds(ctx, topic, lane)
	if err == nil && b.Start > 0 {
		err = fmt.Errorf("%w: topic %s, lane %d: retention has removed all %d records, and with them where their stage stopped "+
			"(set retention.ms of the topic to -1)", ErrGap, l.Name(topic), lane, b.Start)
	}
	return err
}

// isSequenced reports whether a stage wrote the record, and sets its Seq.
func isSequenced(rec *Record) bool {
	_, err := MarkOf(*rec)
	if err != nil {
		return false
	}
	rec.Seq, err = parseSeq(rec)
	return err == nil
}

// LastSeq returns the seq of the last record of a lane, -1 if it has none. Another writer may still be writing, so the
// result is a lower bound.
func (l *Log) LastSeq(ctx context.Context, topic schemas.Topic, lane int) (int64, error) {
	found, err := l.lastRecord(ctx, topic, lane)
	if err != nil || !found.found {
		return -1, err
	}
	return found.seq, nil
}
