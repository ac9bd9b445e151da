package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// keepEvery is the time between two notes of a lane's place in the control topic. Retention deletes the records of a
// quiet lane, and with them the seq and the mark from which its stage goes on. The note may be older than the log.
// Then the stage writes some records again, which is a repetition like any other.
const keepEvery = time.Minute

// kept is the place where a stage has stopped in one lane of one output.
type kept struct {
	Seq  int64  `json:"seq"`
	Mark []byte `json:"mark"`
}

func keptKey(stage string, topic schemas.Topic, lane int) string {
	return fmt.Sprintf("mark/%s/%s/%d", stage, topic, lane)
}

// keep notes where the lane has stopped, unless that is already noted.
func (ln *lane) keep(ctx context.Context) error {
	ln.keepNext = time.Now().Add(ln.log.keepEvery)
	for _, t := range ln.spec.Outputs {
		final, ok := ln.out.pub.lastAcked(t)
		if !ok || final.number == ln.kept[t] {
			continue
		}
		rec := Record{headers: final.headers}
		seq, err := parseSeq(&rec)
		if err != nil {
			return fmt.Errorf("keeping the place in %s, lane %d: %w", t, ln.id, err)
		}
		src, _ := rec.Header(schemas.HeaderSource)
		if err := ln.log.remember(ctx, keptKey(ln.spec.Name, t, ln.id), kept{seq, src}); err != nil {
			return err
		}
		ln.kept[t] = final.number
	}
	return nil
}

// stopped returns where the stage has stopped in an output. It looks at the last record, or at the note when
// retention has removed all records.
func (ln *lane) stopped(ctx context.Context, t schemas.Topic) (last, error) {
	l, err := ln.log.lastRecord(ctx, t, ln.id)
	if !errors.Is(err, ErrGap) {
		return l, err
	}
	key, found := keptKey(ln.spec.Name, t, ln.id), kept{Seq: -1}
	rerr := ln.log.recall(ctx, key, func(k string, value []byte) error {
		if k != key { // lane 1 is a prefix of lane 10
			return nil
		}
		return json.Unmarshal(value, &found)
	})
	if rerr != nil || found.Seq < 0 {
		return l, errors.Join(err, rerr)
	}
	mark, err := parseMark(found.Mark)
	ln.log.logger.Warn("retention has removed the lane's output; going on from what was kept", keyStage, ln.spec.Name, keyTopic, t,
		keyLane, ln.id, keySeq, found.Seq)
	return last{found: err == nil, seq: found.Seq, mark: mark}, err
}
