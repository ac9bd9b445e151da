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

// Skip is an operator's decision that a lane continues without some records. Every reader of the topic follows it, so
// all stages see the same sequence. With To.Seq above From.Seq, the records with seqs from From.Seq up to To.Seq are
// given up. Otherwise the records with offsets from From.Offset up to To.Offset are foreign and skipped.
type Skip struct {
	Topic  schemas.Topic `json:"topic"`
	Lane   int           `json:"lane"`
	From   Position      `json:"from"`
	To     Position      `json:"to"`
	Reason string        `json:"reason"` // the operator's
	Found  string        `json:"found"`  // the fault that was found
	Time   time.Time     `json:"time"`
}

const skipPrefix = "skip/"

// Skip records an operator's decision, permanently.
func (l *Log) Skip(ctx context.Context, s Skip) error {
	switch {
	case !isLaneTopic(s.Topic) || s.Lane < 0 || s.Lane >= l.cfg.Lanes:
		return fmt.Errorf("skipping in %s, lane %d: want a topic with lanes, and a lane below LANES=%d", s.Topic, s.Lane, l.cfg.Lanes)
	case s.To.Seq < s.From.Seq || s.To.Offset < s.From.Offset || s.To == s.From:
		return fmt.Errorf("skipping in %s, lane %d: from %+v to %+v skips nothing", s.Topic, s.Lane, s.From, s.To)
	case s.Reason == "":
		return errors.New("skipping: the reason is empty; give one, for later readers of the log")
	}
	s.Time = l.clock().UTC()
	return l.remember(ctx, fmt.Sprintf("%s%s/%d/%d/%d", skipPrefix, s.Topic, s.Lane, s.From.Seq, s.From.Offset), s)
}

// Skips returns the decisions of operators, the oldest first.
func (l *Log) Skips(ctx context.Context) ([]Skip, error) {
	var skips []Skip
	err := l.recall(ctx, skipPrefix, func(_ string, value []byte) error {
		var s Skip
		err := json.Unmarshal(value, &s)
		skips = append(skips, s)
		return err
	})
	slices.SortFunc(skips, func(a, b Skip) int { return a.Time.Compare(b.Time) })
	return skips, err
}

// skipsOf returns the skips of one lane.
func (l *Log) skipsOf(ctx context.Context, topic schemas.Topic, lane int) ([]Skip, error) {
	all, err := l.Skips(ctx)
	return ofLane(all, topic, lane), err
}

// ofLane returns the skips of one lane. The result is never nil, because the skips were read and there may be none.
func ofLane(all []Skip, topic schemas.Topic, lane int) []Skip {
	found := []Skip{}
	for _, s := range all {
		if s.Topic == topic && s.Lane == lane {
			found = append(found, s)
		}
	}
	return found
}

// follow moves the reader's position past skipped records.
func (r *Reader) follow() {
	for moved := true; moved; {
		moved = false
		for _, s := range r.skips {
			switch {
			case r.seqed && s.To.Seq > s.From.Seq && s.From.Seq == r.pos.Seq,
				!r.seqed && s.From.Offset <= r.pos.Offset && r.pos.Offset < s.To.Offset:
				r.pos.Seq, r.pos.Offset, moved = s.To.Seq, max(r.pos.Offset, s.To.Offset), true
			}
		}
	}
}

// ask reads the skips before the first record, unless the reader knows them.
func (r *Reader) ask(ctx context.Context) error {
	if r.asked {
		return nil
	}
	skips, err := r.log.skipsOf(ctx, r.f.Topic(), r.f.Lane())
	if err != nil {
		return fmt.Errorf("asking for skips: %w", err)
	}
	r.asked, r.skips = true, skips
	at := r.pos
	if r.follow(); r.pos != at {
		r.f = r.f.Move(r.pos.Offset)
	}
	return nil
}

// dropped reports whether the record at an offset was declared foreign.
func (r *Reader) dropped(offset int64) bool { return declaredForeign(r.skips, offset) }

func declaredForeign(skips []Skip, offset int64) bool {
	return slices.ContainsFunc(skips, func(s Skip) bool {
		return s.To.Seq == s.From.Seq && s.From.Offset <= offset && offset < s.To.Offset
	})
}

// FindDamage reads a lane from a position and returns the first fault, with a proposal for continuing. It returns the
// zero Skip if there is none. A record whose seq is too high is foreign if it has no mark, or if the expected record
// comes after it. Otherwise records are lost.
func (l *Log) FindDamage(ctx context.Context, topic schemas.Topic, lane int, from Position) (Skip, error) {
	b, err := l.Bounds(ctx, topic, lane)
	if err != nil {
		return Skip{}, err
	}
	skips, err := l.skipsOf(ctx, topic, lane)
	if err != nil {
		return Skip{}, err
	}
	r := l.newReader(topic, lane, from, 8<<20, newInstruments(l.metrics, "scan", nil), skips)
	defer r.Close()
	for r.pos.Offset < b.End {
		at := r.pos
		_, ok, err := r.nextBelow(ctx, b.End)
		var gap *GapError
		switch {
		case errors.Is(err, ErrPoison):
		case errors.As(err, &gap):
			return l.proposal(ctx, gap, b.End)
		case errors.Is(err, ErrGap):
			s := Skip{Topic: topic, Lane: lane, From: at, To: Position{Offset: b.Start}, Found: err.Error()}
			s.To.Seq, err = l.firstSeq(ctx, topic, lane, b)
			return s, err
		case err != nil || !ok:
			return Skip{}, err
		}
	}
	return Skip{}, nil
}

func (l *Log) proposal(ctx context.Context, gap *GapError, end int64) (Skip, error) {
	s := Skip{Topic: gap.Topic, Lane: gap.Lane, Found: gap.Error()}
	s.From = Position{Offset: gap.Offset, Seq: gap.Expected}
	s.To = Position{Offset: gap.Offset + 1, Seq: gap.Expected}
	_, ours, err := l.LastIn(ctx, gap.Topic, gap.Lane, gap.Offset, gap.Offset+1, isSequenced)
	if err != nil || !ours { // no stage wrote it, so nothing need be lost
		return s, err
	}
	behind, err := l.seqBehind(ctx, gap.Topic, gap.Lane, gap.Offset, end, gap.Expected)
	if err == nil && !behind {
		s.To = Position{Offset: gap.Offset, Seq: gap.Found}
	}
	return s, err
}

// seqBehind reports whether the record with a seq lies at an offset or after it.
func (l *Log) seqBehind(ctx context.Context, topic schemas.Topic, lane int, from, end, seq int64) (bool, error) {
	_, found, err := l.LastIn(ctx, topic, lane, from, end, func(r *Record) bool {
		got, err := parseSeq(r)
		return err == nil && got == seq
	})
	return found, err
}

// firstSeq returns the seq of the first record of a lane, 0 in a topic without seqs. In an empty lane it is the seq
// after the last one noted by the lane's writer.
func (l *Log) firstSeq(ctx context.Context, topic schemas.Topic, lane int, b kafka.Bounds) (int64, error) {
	if Sequenced(topic) && b.Start == b.End {
		return l.keptBehind(ctx, topic, lane)
	}
	first, found := int64(0), false
	for from := b.Start; !found && Sequenced(topic) && from < b.End; from++ {
		_, _, err := l.LastIn(ctx, topic, lane, from, from+1, func(r *Record) bool {
			seq, err := parseSeq(r)
			if err == nil && !found {
				first, found = seq, true
			}
			return found
		})
		if err != nil {
			return 0, err
		}
	}
	return first, nil
}

// SeqAt reads the seq of the record at an offset.
func (l *Log) SeqAt(ctx context.Context, topic schemas.Topic, lane int, offset int64) (int64, error) {
	rec, found, err := l.LastIn(ctx, topic, lane, offset, offset+1, isSequenced)
	if err == nil && !found {
		err = fmt.Errorf("%s, lane %d has no record of a stage at offset %d", topic, lane, offset)
	}
	return rec.Seq, err
}
