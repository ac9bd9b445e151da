package stream

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/schemas"
)

// LastRecord reads the last record of a lane, or returns false if there is none. In a topic with seqs it is the last
// record that a stage wrote.
func (l *Log) LastRecord(ctx context.Context, topic schemas.Topic, lane int) (Record, bool, error) {
	counts := isSequenced
	if !Sequenced(topic) {
		counts = func(*Record) bool { return true }
	}
	return l.LastWhere(ctx, topic, lane, counts)
}

// Peek reads the first few records at or after an offset of a lane: about 64 KiB, and at least one record if there is
// any.
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

// MarkOf returns the mark from which the stage that wrote the record produces the records after it.
func MarkOf(rec Record) (Mark, error) {
	src, _ := rec.Header(schemas.HeaderSource)
	return parseMark(src)
}

// Input returns the stage's position in one of its inputs. It is the start of the lane for an input that the mark does
// not name.
func (m Mark) Input(t schemas.Topic) Position { return m.input(t) }

// Class returns the part of the reason that similar dead letters share.
func (d DeadLetter) Class() string { return reasonClass(d.Reason) }
