package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

// clockSkew is the most by which the clocks of brokers may differ.
const clockSkew = time.Minute

// checkSame refuses a position in a topic that was deleted and recreated, and has grown beyond the position since. The
// first records of such a topic would silently never be read. In topics with seqs, the seqs reveal this.
//
// The topic's id reveals it regardless of the topic's length, which may grow before the lane reads. If the id is
// unknown, the brokers' clocks decide: a stage's output is not older than its inputs. So checkSame looks at the record
// before the position. If it is newer than the stage's last output, it is not the record that the stage has read.
func (l *Log) checkSame(ctx context.Context, stage string, topic schemas.Topic, lane int, from Position, wrote Record, skips []Skip) error {
	if Sequenced(topic) {
		return l.checkSeqs(ctx, topic, lane, from, skips)
	}
	id, was, err := l.topicIDs(ctx, stage, topic, lane)
	if err != nil {
		return err
	}
	known := id != "" && was != ""
	switch {
	case id != "" && (was == "" || from.Offset == 0 && was != id):
		if err := l.noteTopicID(ctx, stage, topic, lane, id); err != nil {
			return err
		}
	case known && was == id:
		return nil
	}
	if from.Offset == 0 || !known && (wrote.Topic == "" || !l.Stamps(topic) || !l.Stamps(wrote.Topic)) {
		return nil
	}
	if slices.ContainsFunc(skips, func(s Skip) bool { return s.From.Offset < from.Offset && from.Offset <= s.To.Offset }) {
		return l.noteTopicID(ctx, stage, topic, lane, id) // an operator has decided
	}
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil {
		return err
	}
	why := "the topic's id has changed since the lane was begun: it was recreated."
	if !known {
		if why, err = l.isLater(ctx, topic, lane, from, b, wrote); why == "" {
			return err
		}
	}
	remedy := "Use another NAMESPACE"
	if b.Start < from.Offset && from.Offset <= b.End { // otherwise the record does not exist
		remedy += fmt.Sprintf(", or continue after it with `pairstream lanes skip --topic %s --record %d`", topic, from.Offset-1)
	}
	return Damaged(fmt.Errorf("topic %s, lane %d, offset %d: %s %s", l.Name(topic), lane, from.Offset-1, why, remedy))
}

func topicIDKey(stage string, t schemas.Topic, lane int) string {
	return fmt.Sprintf("topic-id/%s/%s/%d", stage, t, lane)
}

// topicIDs returns a topic's id, and the id of the topic in which the stage began the lane. An unknown id is empty.
func (l *Log) topicIDs(ctx context.Context, stage string, t schemas.Topic, lane int) (id, was string, err error) {
	if id, err = l.TopicID(ctx, t); err != nil || id == "" {
		return "", "", err
	}
	key := topicIDKey(stage, t, lane)
	err = l.recall(ctx, key, func(k string, value []byte) error {
		if k != key { // lane 1 is a prefix of lane 10
			return nil
		}
		return json.Unmarshal(value, &was)
	})
	return id, was, err
}

// noteTopicID notes in which topic the stage reads the lane.
func (l *Log) noteTopicID(ctx context.Context, stage string, t schemas.Topic, lane int, id string) error {
	if id == "" {
		return nil
	}
	return l.remember(ctx, topicIDKey(stage, t, lane), id)
}

// isLater describes the record before a position if it is later than the stage's output wrote. Otherwise, and if there
// is no such record, it returns "".
func (l *Log) isLater(ctx context.Context, topic schemas.Topic, lane int, from Position, b kafka.Bounds, wrote Record) (string, error) {
	if from.Offset <= b.Start || from.Offset > b.End {
		return "", nil // a later read reports records that are gone or not there yet
	}
	before, found, err := l.LastIn(ctx, topic, lane, from.Offset-1, from.Offset, func(*Record) bool { return true })
	if err != nil || !found || before.Time.Sub(wrote.Time) <= l.clockSkew {
		return "", err
	}
	if before.Time.After(l.clock().Add(l.clockSkew)) {
		return "", nil // a producer's time, despite the topic's setting: no broker's clock is so far ahead
	}
	return fmt.Sprintf("it is of %s, later than its results at %s: was the topic recreated?", before.Time.UTC().Format(time.RFC3339), wrote.Time.UTC().Format(time.RFC3339)), nil
}

// checkSeqs refuses a position in a recreated topic with seqs. The record before the position then has the expected
// seq, or a higher one. The lane would wait for a record that it has passed.
func (l *Log) checkSeqs(ctx context.Context, topic schemas.Topic, lane int, from Position, skips []Skip) error {
	if from.Offset == 0 || !Sequenced(topic) {
		return nil
	}
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil || from.Offset <= b.Start || from.Offset > b.End {
		return err // a later read reports records that are gone or not there yet
	}
	before, found, err := l.LastIn(ctx, topic, lane, from.Offset-1, from.Offset, func(rec *Record) bool {
		return isSequenced(rec) && !declaredForeign(skips, rec.Offset)
	})
	if err != nil || !found || before.Seq < from.Seq {
		return err
	}
	return Damaged(fmt.Errorf("topic %s, lane %d: seq %d lies at offset %d, but is due at offset %d or later: was the topic recreated? Use another NAMESPACE",
		l.Name(topic), lane, before.Seq, before.Offset, from.Offset))
}

// checkPlace refuses a record with an offset below its seq. Seqs have no gaps, and repetitions only add offsets, so
// such a record lies in a topic that was recreated or has lost records. A reader that continues in the lane would miss
// the lost records. If operators have given those up, the stage continues.
func (l *Log) checkPlace(ctx context.Context, topic schemas.Topic, lane int, at Position) error {
	key := laneKey{topic, lane}
	given, _ := l.givenUp.Load(key)
	if up, _ := given.(int64); at.Offset+up >= at.Seq {
		return nil
	}
	skips, err := l.skipsOf(ctx, topic, lane)
	if err != nil {
		return err
	}
	up := int64(0)
	for _, s := range skips {
		if s.From.Offset == s.To.Offset && s.From.Seq < at.Seq { // a gap: no offsets are skipped
			up += s.To.Seq - s.From.Seq
		}
	}
	l.givenUp.Store(key, up)
	if lost := at.Seq - at.Offset - up; lost > 0 {
		return Damaged(fmt.Errorf("topic %s, lane %d: seq %d lies at offset %d, so %d records before it are lost: was the topic recreated? "+
			"Use another NAMESPACE, or let its readers continue without them (`pairstream lanes skip`)", l.Name(topic), lane, at.Seq, at.Offset, lost))
	}
	return nil
}

// laneKey is a lane of a topic.
type laneKey struct {
	topic schemas.Topic
	lane  int
}

// CheckWhole refuses a lane whose last record shows that earlier records are lost, for the trainer, which keeps its
// marks in checkpoints.
func (l *Log) CheckWhole(ctx context.Context, topic schemas.Topic, lane int) error {
	at, err := l.lastRecord(ctx, topic, lane)
	if errors.Is(err, ErrGap) || err == nil && !at.found {
		return nil // retention has removed all, or there never was one
	}
	if err != nil {
		return err
	}
	return l.checkPlace(ctx, topic, lane, Position{Offset: at.rec.Offset, Seq: at.seq})
}

// errAnew marks the fault of a lane with a topic that was deleted and recreated.
var errAnew = errors.New("a topic was recreated")

// lookForAnew compares the ids of the stage's topics with those of the last check, and records them. If one has
// changed, it tells the lanes.
func (r *roster) lookForAnew(ctx context.Context) {
	for _, t := range r.topics {
		id, err := r.log.TopicID(ctx, t)
		if err != nil {
			if ctx.Err() == nil {
				r.log.logger.Warn("asking whether a topic was recreated", keyStage, r.stage, keyTopic, t, keyErr, err)
			}
			return
		}
		if was, known := r.ids.Swap(t, id); known && was != "" && id != "" && id != was {
			r.anew.Store(&t)
		}
	}
}

// madeAnew returns an error that wraps [errAnew] if a topic of the stage was recreated since the lane was started. seen
// is the topic that the lane has been told of.
func (r *roster) madeAnew(seen *schemas.Topic) error {
	if t := r.anew.Load(); t != seen {
		return fmt.Errorf("topic %s was recreated: %w", r.log.Name(*t), errAnew)
	}
	return nil
}
