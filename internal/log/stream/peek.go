package stream

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/schemas"
)

// LastRecord reads the last record of a lane. It returns false when there is none. Where records have seqs, it is the
// last one that a stage wrote.
func (l *Log) LastRecord(ctx context.Context, topic schemas.Topic, lane int) (Record, bool, error) {
	counts := isSequenced
	if !Sequenced(topic) {
		counts = func(*Record) bool { return true }
	}
	return l.LastWhere(ctx, topic, lane, counts)
}

// Peek reads the first few records that lie at or behind an offset of a lane: about 64 KiB of them, one at least if
// there is any.
func (l *Log) Peek(ctx context.Context, topic schemas.Topic, lane int, offset int64) ([]Record, error) {
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil {
		return nil, err
	}
	var records []Record
	for from := max(offset, b.Start); len(records) == 0 && from < b.End; {
		err := l.Retry(ctx, fmt.Sprintf("reading a few records of %s, lane %d", l.Name(topic), lane), func(ctx context.Context) (err error) {
			records, from, err = l.ReadAt(ctx, topic, lane, from, 64<<10)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range records {
		records[i].Seq = -1
		isSequenced(&records[i])
	}
	return records, nil
}

// MarkOf returns the point from which the stage that wrote the record makes the records behind it.
func MarkOf(rec Record) (Mark, error) {
	src, _ := rec.Header(schemas.HeaderSource)
	return parseMark(src)
}

// Input returns how far the stage had read one of its inputs. For an input that the mark does not name, that is the
// start of the lane.
func (m Mark) Input(t schemas.Topic) Position { return m.input(t) }

// Class returns the part of the reason that many dead letters share.
func (d DeadLetter) Class() string { return reasonClass(d.Reason) }
