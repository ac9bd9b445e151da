package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// clockSkew is the most by which the clocks of brokers may differ.
const clockSkew = time.Minute

// stamps reports whether the brokers put their own time on the records of a topic.
func (l *Log) stamps(t schemas.Topic) bool {
	_, ok := l.stamped.Load(t)
	return ok
}

// checkSame refuses a position in a topic that was deleted and created again, and is longer by now than it was. The
// first records of such a topic would never be read, in silence. Topics with seqs tell as much by their
// seqs.
//
// The topic's id tells, or where it is not known the brokers' clocks: what a stage has written is not older than its
// inputs. So checkSame looks at the record before the position. If it is newer than the stage's last output, it is
// another record than the stage has read.
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
	if from.Offset == 0 || !known && (wrote.Topic == "" || !l.stamps(topic) || !l.stamps(wrote.Topic)) {
		return nil
	}
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil || from.Offset <= b.Start || from.Offset > b.End {
		return err // reading tells later what is gone, or not there yet
	}
	var before Record
	f := &fetcher{log: l, topic: topic, lane: lane, budget: maxFetchBytes}
	before, found, err := l.lastIn(ctx, f, from.Offset-1, from.Offset, func(*Record) bool { return true })
	if err != nil || !found || !known && before.Time.Sub(wrote.Time) <= l.clockSkew {
		return err
	}
	if before.Time.After(l.clock().Add(l.clockSkew)) {
		return nil // a producer's time, whatever the topic says: no broker is so far ahead
	}
	for _, s := range skips {
		if s.From.Offset <= before.Offset && before.Offset < s.To.Offset {
			return l.noteTopicID(ctx, stage, topic, lane, id) // an operator knows
		}
	}
	why := "the topic has another id than when the lane was begun: it was made anew"
	if !known {
		why = fmt.Sprintf("it is of %s, later than what was made of it at %s: was the topic made anew?", before.Time.UTC().Format(time.RFC3339), wrote.Time.UTC().Format(time.RFC3339))
	}
	return Damaged(fmt.Errorf("topic %s, lane %d, offset %d: %s Use another NAMESPACE, or go on behind it with `pairstream lanes skip --topic %s --record %d`",
		l.name(topic), lane, before.Offset, why+".", topic, before.Offset))
}

// checkSeqs refuses a position in a topic with seqs that was made anew. The record before the position then has the seq
// that comes next, or a higher one. The lane would wait for a record that it has passed.
func (l *Log) checkSeqs(ctx context.Context, topic schemas.Topic, lane int, from Position, skips []Skip) error {
	if from.Offset == 0 || !Sequenced(topic) {
		return nil
	}
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil || from.Offset <= b.Start || from.Offset > b.End {
		return err // reading tells later what is gone, or not there yet
	}
	f := &fetcher{log: l, topic: topic, lane: lane, budget: maxFetchBytes}
	before, found, err := l.lastIn(ctx, f, from.Offset-1, from.Offset, func(rec *Record) bool {
		return isSequenced(rec) && !declaredForeign(skips, rec.Offset)
	})
	if err != nil || !found || before.Seq < from.Seq {
		return err
	}
	return Damaged(fmt.Errorf("topic %s, lane %d: seq %d lies at offset %d, but is due at offset %d or later: was the topic made anew? Use another NAMESPACE",
		l.name(topic), lane, before.Seq, before.Offset, from.Offset))
}

// errAnew marks the fault of a lane one of whose topics was deleted and created again.
var errAnew = errors.New("a topic was made anew")

// lookForAnew compares the ids of the stage's topics with those of the last look, and notes them. Where one has changed,
// the lanes are told.
func (r *roster) lookForAnew(ctx context.Context) {
	for _, t := range r.topics {
		id, err := r.log.topicID(ctx, t)
		if err != nil {
			if ctx.Err() == nil {
				r.log.logger.Warn("asking whether a topic was made anew", keyStage, r.stage, keyTopic, t, keyErr, err)
			}
			return
		}
		if was, known := r.ids.Swap(t, id); known && was != "" && id != "" && id != was {
			r.anew.Store(&t)
		}
	}
}

// madeAnew returns an error that wraps [errAnew] when a topic of the stage was made anew since the lane was taken up. seen is
// what the lane has been told of.
func (r *roster) madeAnew(seen *schemas.Topic) error {
	if t := r.anew.Load(); t != seen {
		return fmt.Errorf("topic %s was made anew: %w", r.log.name(*t), errAnew)
	}
	return nil
}
