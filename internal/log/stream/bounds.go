package stream

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// Bounds are the offsets that one lane of a topic holds: from Start up to but not including End.
type Bounds struct{ Start, End int64 }

// Bounds asks the broker which offsets a lane holds, and waits until it answers.
func (l *Log) Bounds(ctx context.Context, topic schemas.Topic, lane int) (Bounds, error) {
	var b Bounds
	name := l.name(topic)
	err := l.retry(ctx, fmt.Sprintf("listing offsets of %s, lane %d", name, lane), func(ctx context.Context) error {
		resp, err := l.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
			IsolationLevel: kafka.ReadCommitted,
			Topics:         map[string][]kafka.OffsetRequest{name: {kafka.FirstOffsetOf(lane), kafka.LastOffsetOf(lane)}},
		})
		if err != nil {
			return err
		}
		for _, p := range resp.Topics[name] {
			if p.Partition == lane {
				b = Bounds{p.FirstOffset, p.LastOffset}
				return p.Error
			}
		}
		return kafka.UnknownTopicOrPartition
	})
	return b, err
}

// Ends asks the broker for the end of every lane of a topic.
func (l *Log) Ends(ctx context.Context, topic schemas.Topic) ([]int64, error) {
	return l.offsets(ctx, topic, "ends", kafka.LastOffsetOf, func(p kafka.PartitionOffsets) int64 { return p.LastOffset })
}

// Starts asks the broker for the first offset that every lane of a topic still holds.
func (l *Log) Starts(ctx context.Context, topic schemas.Topic) ([]int64, error) {
	return l.offsets(ctx, topic, "starts", kafka.FirstOffsetOf, func(p kafka.PartitionOffsets) int64 { return p.FirstOffset })
}

func (l *Log) offsets(ctx context.Context, topic schemas.Topic, what string, of func(lane int) kafka.OffsetRequest, pick func(kafka.PartitionOffsets) int64) ([]int64, error) {
	found, name := make([]int64, l.cfg.Lanes), l.name(topic)
	var ask []kafka.OffsetRequest
	for lane := range found {
		ask = append(ask, of(lane))
	}
	err := l.retry(ctx, "listing the "+what+" of "+name, func(ctx context.Context) error {
		resp, err := l.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{
			IsolationLevel: kafka.ReadCommitted, Topics: map[string][]kafka.OffsetRequest{name: ask},
		})
		if err != nil {
			return err
		}
		answers := resp.Topics[name]
		for _, p := range answers {
			if p.Error != nil {
				return fmt.Errorf("lane %d: %w", p.Partition, p.Error)
			}
			found[p.Partition] = pick(p)
		}
		if len(answers) != len(found) {
			return fmt.Errorf("%d of %d lanes: %w", len(answers), len(found), kafka.UnknownTopicOrPartition)
		}
		return nil
	})
	return found, err
}

// last is what the log knows of the place where a stage stopped, in one lane of one output.
type last struct {
	found bool
	seq   int64
	mark  Mark
	rec   Record
}

// lastRecord reads where a stage stopped. It takes the last record of a lane that carries a seq and a mark
// (invariants 4 and 6), and that no operator has declared foreign. Usually that is the very last one.
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
	mark, err := rec.Mark()
	return last{found: err == nil, seq: rec.Seq, mark: mark, rec: rec}, err
}

// checkNeverWritten refuses a lane whose records are all gone. A stage that began it anew would number its records
// from 0, and its readers would take them for repetitions.
func (l *Log) checkNeverWritten(ctx context.Context, topic schemas.Topic, lane int) error {
	b, err := l.Bounds(ctx, topic, lane)
	if err == nil && b.Start > 0 {
		err = fmt.Errorf("%w: topic %s, lane %d: retention has removed all %d records, and with them where their stage stopped "+
			"(set retention.ms of the topic to -1)", ErrGap, l.name(topic), lane, b.Start)
	}
	return err
}

// isSequenced reports whether a stage wrote the record, and sets its Seq.
func isSequenced(rec *Record) bool {
	_, err := rec.Mark()
	if err != nil {
		return false
	}
	rec.Seq, err = parseSeq(rec)
	return err == nil
}

// LastWhere reads the last record of a lane that counts. It looks back in windows that grow. So it passes over
// records of others, and over control batches of producers that use transactions.
func (l *Log) LastWhere(ctx context.Context, topic schemas.Topic, lane int, counts func(*Record) bool) (Record, bool, error) {
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil {
		return Record{}, false, err
	}
	f := &fetcher{log: l, topic: topic, lane: lane, budget: maxFetchBytes}
	for window := int64(1); b.End > b.Start; window *= 8 {
		from := max(b.Start, b.End-window)
		rec, found, err := l.lastIn(ctx, f, from, b.End, counts)
		if err != nil || found {
			return rec, found, err
		}
		if from == b.Start {
			break
		}
	}
	return Record{}, false, nil
}

// lastIn finds the last record that counts among the offsets from..end-1.
func (l *Log) lastIn(ctx context.Context, f *fetcher, from, end int64, counts func(*Record) bool) (Record, bool, error) {
	var latest Record
	found := false
	for from < end {
		var records []Record
		next := from
		what := fmt.Sprintf("reading the end of %s, lane %d", l.name(f.topic), f.lane)
		err := l.retry(ctx, what, func(ctx context.Context) error {
			var err error
			records, next, err = f.fetch(ctx, from)
			if err == nil && next == from {
				return fmt.Errorf("%w: no record at offset %d, although the log goes on to %d", ErrTransient, from, end)
			}
			return err
		})
		if err != nil {
			return latest, false, err
		}
		for i := range records {
			if rec := &records[i]; rec.Offset < end && counts(rec) {
				latest, found = *rec, true
			}
		}
		from = next
	}
	return latest, found, nil
}

// LastSeq returns the seq of the last record of a lane, -1 when it has none. Another writer may still be writing, so
// the result is a lower bound of what follows in the log.
func (l *Log) LastSeq(ctx context.Context, topic schemas.Topic, lane int) (int64, error) {
	found, err := l.lastRecord(ctx, topic, lane)
	if err != nil || !found.found {
		return -1, err
	}
	return found.seq, nil
}
