package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// Headers of a dead letter, besides those of the record itself.
const (
	headerDeadTopic  = "dl-topic"
	headerDeadLane   = "dl-lane"
	headerDeadOffset = "dl-offset"
	headerDeadStage  = "dl-stage"
	headerDeadReason = "dl-reason"
	headerDeadKey    = "dl-key" // the record's own key, when it has one
)

// maxReasonBytes keeps a reason that quotes its record from making the dead letter much larger than the record.
const maxReasonBytes = 1 << 10

// DeadLetter is a record that a stage set aside.
type DeadLetter struct {
	Number int64 // its offset in dead-letters
	Topic  schemas.Topic
	Lane   int
	Offset int64
	Stage  string
	Reason string
	Key    []byte
	Value  []byte // untouched
	Schema string
	Time   time.Time // informative

	headers []header
}

// deadLetter makes the message that sets rec aside. Its key names the record, so that what is written again after a
// crash can be told from another dead letter.
func deadLetter(stage string, rec Record, reason string) message {
	if len(reason) > maxReasonBytes {
		reason = strings.ToValidUTF8(reason[:maxReasonBytes], "")
	}
	m := message{
		topic: schemas.DeadLetters,
		key:   fmt.Appendf(nil, "%s/%d/%d", rec.Topic, rec.Lane, rec.Offset),
		value: rec.Value,
		headers: []header{
			{Key: headerDeadTopic, Value: []byte(rec.Topic)},
			{Key: headerDeadLane, Value: strconv.AppendInt(nil, int64(rec.Lane), 10)},
			{Key: headerDeadOffset, Value: strconv.AppendInt(nil, rec.Offset, 10)},
			{Key: headerDeadStage, Value: []byte(stage)},
			{Key: headerDeadReason, Value: []byte(reason)},
		},
	}
	if rec.key != nil {
		m.headers = append(m.headers, header{Key: headerDeadKey, Value: rec.key})
	}
	m.headers = append(m.headers, rec.headers...)
	return m
}

// DeadLetter sets aside a record that was read with a [Reader], and waits for the ack.
func (p *Publisher) DeadLetter(ctx context.Context, stage string, rec Record, reason string) error {
	p.meter.deadLettered(reasonClass(reason))
	if err := p.enqueue(ctx, deadLetter(stage, rec, reason)); err != nil {
		return err
	}
	return p.Flush(ctx)
}

// reason is the text of a dead letter's reason.
func reason(err error) string {
	for class, sentinel := range map[string]error{
		"malformed": schemas.ErrMalformed, "unknown schema": schemas.ErrUnknownSchema, "invalid record": schemas.ErrInvalid,
	} {
		if errors.Is(err, sentinel) {
			return class + ": " + err.Error()
		}
	}
	return err.Error()
}

const maxReasonClass = 32

// reasonClass is the part of a reason that may label a metric: its words up to the first colon, if they are plain
// enough to be a class and not to name a record.
func reasonClass(reason string) string {
	class, _, _ := strings.Cut(reason, ":")
	if class == "" || len(class) > maxReasonClass {
		return "other"
	}
	for _, r := range class {
		if !(r >= 'a' && r <= 'z' || r == ' ' || r == '-') {
			return "other"
		}
	}
	return class
}

// DeadLetters yields the dead letters that are in the log now, oldest first and each record once: what a stage set
// aside again after a crash is passed over, and so is what another stage set aside as well.
func (l *Log) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return l.DeadLettersFrom(ctx, 0)
}

// DeadLettersFrom is DeadLetters for those with a number not below first.
func (l *Log) DeadLettersFrom(ctx context.Context, first int64) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		type key struct {
			topic  schemas.Topic
			lane   int
			offset int64
		}
		seen := make(map[key]bool)
		for rec, err := range l.Records(ctx, schemas.DeadLetters, 0, Position{Offset: first}, -1) {
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			d, err := parseDeadLetter(rec)
			if err != nil {
				l.logger.Warn("passing over a foreign record", keyTopic, schemas.DeadLetters, keyOffset, rec.Offset, keyErr, err)
				continue
			}
			k := key{d.Topic, d.Lane, d.Offset}
			if seen[k] {
				continue
			}
			seen[k] = true
			if !yield(d, nil) {
				return
			}
		}
	}
}

func parseDeadLetter(rec Record) (DeadLetter, error) {
	text := func(name string) string {
		v, _ := rec.Header(name)
		return string(v)
	}
	d := DeadLetter{
		Number: rec.Offset,
		Topic:  schemas.Topic(text(headerDeadTopic)), Stage: text(headerDeadStage), Reason: text(headerDeadReason),
		Schema: rec.Schema, Value: rec.Value, Time: rec.Time,
	}
	var lerr, oerr error
	d.Lane, lerr = strconv.Atoi(text(headerDeadLane))
	d.Offset, oerr = strconv.ParseInt(text(headerDeadOffset), 10, 64)
	if d.Topic == "" || lerr != nil || oerr != nil {
		return d, fmt.Errorf("headers %s, %s, %s do not name a record", headerDeadTopic, headerDeadLane, headerDeadOffset)
	}
	for _, h := range rec.headers {
		switch {
		case h.Key == headerDeadKey:
			d.Key = h.Value
		case !strings.HasPrefix(h.Key, "dl-"):
			d.headers = append(d.headers, h)
		}
	}
	return d, nil
}

// Republish puts a dead letter back at the end of the lane that it came from, as it was: to be used after a fix. Only
// what outside producers wrote can go back; the place of a stage's record is in a sequence that is gone by.
func (p *Publisher) Republish(ctx context.Context, d DeadLetter) error {
	if Sequenced(d.Topic) {
		return fmt.Errorf("republishing %s, lane %d, offset %d: its records are numbered by the stage that wrote them",
			d.Topic, d.Lane, d.Offset)
	}
	return p.enqueue(ctx, message{topic: d.Topic, lane: d.Lane, key: d.Key, value: d.Value, headers: d.headers})
}
