package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// keepEvery is the time between two notes of a lane's position in the control topic. Retention deletes the records of a
// quiet lane, and with them the seq and the mark from which its stage resumes. If the note is older than the log, the
// stage writes some records again, which are repetitions like any others.
const keepEvery = time.Minute

// stopNote is a stage's stopping point in one lane of one output.
type stopNote struct {
	Seq  int64  `json:"seq"`
	Mark []byte `json:"mark"`
}

const keptPrefix = "mark/"

func keptKey(stage string, topic schemas.Topic, lane int) string {
	return fmt.Sprintf(keptPrefix+"%s/%s/%d", stage, topic, lane)
}

// keep notes the lane's stopping point, unless that is already noted.
func (ln *lane) keep(ctx context.Context) error {
	ln.keepNext = time.Now().Add(ln.log.keepEvery)
	for _, t := range ln.spec.Outputs {
		final, ok := ln.out.pub.lastAcked(t)
		if number, noted := ln.kept[t]; !ok || noted && number == final.number {
			continue
		}
		rec := Record{Headers: final.Headers}
		seq, err := parseSeq(&rec)
		if err != nil {
			return fmt.Errorf("keeping the place in %s, lane %d: %w", t, ln.id, err)
		}
		src, _ := rec.Header(schemas.HeaderSource)
		if err := ln.log.remember(ctx, keptKey(ln.spec.Name, t, ln.id), stopNote{seq, src}); err != nil {
			return err
		}
		ln.kept[t] = final.number
	}
	return nil
}

// KeepSeqs notes the seqs of the last records that the trainer has written to lanes of a topic. Its marks are in
// checkpoints.
func (l *Log) KeepSeqs(ctx context.Context, stage string, t schemas.Topic, seqs map[int]int64) error {
	p := l.NewPublisher(PublisherOptions{Name: "control"})
	var err error
	for lane, seq := range seqs {
		err = errors.Join(err, p.Note(ctx, schemas.Control, keptKey(stage, t, lane), stopNote{Seq: seq}))
	}
	return errors.Join(err, p.Close(ctx))
}

// keptBehind returns the seq after the noted last record of a lane, 0 if none is noted.
func (l *Log) keptBehind(ctx context.Context, t schemas.Topic, lane int) (next int64, err error) {
	all, err := l.Kept(ctx)
	for place, seq := range all {
		if place.Topic == t && place.Lane == lane {
			next = max(next, seq+1)
		}
	}
	return next, err
}

// stopped returns a stage's stopping point in an output: the last record, or the note if retention has removed all
// records.
func (l *Log) stopped(ctx context.Context, stage string, t schemas.Topic, lane int) (last, error) {
	at, err := l.lastRecord(ctx, t, lane)
	if !errors.Is(err, ErrGap) {
		return at, err
	}
	key, found := keptKey(stage, t, lane), stopNote{Seq: -1}
	rerr := l.recall(ctx, key, func(k string, value []byte) error {
		if k != key { // lane 1 is a prefix of lane 10
			return nil
		}
		return json.Unmarshal(value, &found)
	})
	if rerr != nil || found.Seq < 0 {
		return at, errors.Join(err, rerr)
	}
	mark, err := parseMark(found.Mark)
	l.logger.Warn("retention has removed the lane's output; resuming from the noted position", keyStage, stage, keyTopic, t, keyLane, lane, keySeq, found.Seq)
	return last{found: err == nil, seq: found.Seq, mark: mark}, err
}

// KeptPlace is a lane of an output of a stage.
type KeptPlace struct {
	Stage string
	Topic schemas.Topic
	Lane  int
}

// Kept returns the seqs of the noted records, by lane and output. A stage does not need a noted record to resume.
func (l *Log) Kept(ctx context.Context) (map[KeptPlace]int64, error) {
	seqs := make(map[KeptPlace]int64)
	err := l.recall(ctx, keptPrefix, func(key string, value []byte) error {
		parts := strings.Split(key, "/")
		if len(parts) != 4 {
			return fmt.Errorf("want %sSTAGE/TOPIC/LANE", keptPrefix)
		}
		lane, err := strconv.Atoi(parts[3])
		var k stopNote
		err = errors.Join(err, json.Unmarshal(value, &k))
		seqs[KeptPlace{parts[1], schemas.Topic(parts[2]), lane}] = k.Seq
		return err
	})
	return seqs, err
}

// recover reads the end of every output of a stage's lane and chooses the furthest covered mark (invariant 5). It also
// returns the last record of each output, if the log still has it.
func (l *Log) recover(ctx context.Context, stage string, lane int, inputs, outputs []schemas.Topic) (best Mark, published map[schemas.Topic]int64, wrote []Record, err error) {
	published = make(map[schemas.Topic]int64, len(outputs))
	var marks []Mark
	for _, t := range outputs {
		at, err := l.stopped(ctx, stage, t, lane)
		if err != nil {
			return best, nil, wrote, err
		}
		if !at.found {
			continue
		}
		if err := at.mark.check(inputs, outputs); err != nil {
			return best, nil, wrote, fmt.Errorf("last record of %s: %w", l.Name(t), err)
		}
		published[t] = at.seq + 1
		marks = append(marks, at.mark)
		if at.rec.Topic != "" {
			wrote = append(wrote, at.rec)
		}
	}
	return furthest(marks, published, inputs, outputs), published, wrote, nil
}

// ResumeMark returns the mark from which a new owner of a stage's lane would resume. It reads nothing before that mark.
// The zero mark is the start of the lane.
func (l *Log) ResumeMark(ctx context.Context, stage string, lane int, inputs, outputs []schemas.Topic) (Mark, error) {
	mark, _, _, err := l.recover(ctx, stage, lane, inputs, outputs)
	return mark, err
}
