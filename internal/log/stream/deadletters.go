package stream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pairstream/pairstream/internal/base/display"
	"github.com/pairstream/pairstream/internal/log/kafka"
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
	headerDeadCut    = "dl-cut" // how many bytes the value had, when the dead letter lacks a part of the value, the key or the headers
)

// maxDeadKeyBytes bounds the part of a record's key that a dead letter keeps.
const maxDeadKeyBytes = 4 << 10

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
	Value  []byte // untouched, or the beginning
	Cut    int64  // how many bytes the whole value had, when this is the beginning
	Schema string
	Time   time.Time // informative

	Headers []kafka.Header // of the record that was set aside
}

// deadLetter makes the message that sets rec aside. The key names the record, so a reader recognizes a repetition after
// a crash.
func deadLetter(stage string, rec Record, reason string) message {
	if reason = display.Redacted(reason); len(reason) > maxReasonBytes {
		reason = strings.ToValidUTF8(reason[:maxReasonBytes], "")
	}
	m := message{Message: kafka.Message{
		Topic: schemas.DeadLetters,
		Key:   fmt.Appendf(nil, "%s/%d/%d", rec.Topic, rec.Lane, rec.Offset),
		Value: rec.Value,
		Headers: []kafka.Header{
			{Key: headerDeadTopic, Value: []byte(rec.Topic)},
			{Key: headerDeadLane, Value: strconv.AppendInt(nil, int64(rec.Lane), 10)},
			{Key: headerDeadOffset, Value: strconv.AppendInt(nil, rec.Offset, 10)},
			{Key: headerDeadStage, Value: []byte(stage)},
			{Key: headerDeadReason, Value: []byte(reason)},
		},
	}}
	if rec.Key != nil {
		m.Headers = append(m.Headers, kafka.Header{Key: headerDeadKey, Value: rec.Key[:min(len(rec.Key), maxDeadKeyBytes)]})
	}
	if !m.addHeaders(rec.Headers) || len(rec.Key) > maxDeadKeyBytes {
		m.Headers = append(m.Headers, kafka.Header{Key: headerDeadCut, Value: strconv.AppendInt(nil, int64(len(rec.Value)), 10)})
	}
	return m
}

// addHeaders appends as many headers as a reader accepts, with room for [headerDeadCut]. It reports whether all of them
// fit.
func (m *message) addHeaders(more []kafka.Header) bool {
	const room = 64
	size := room
	for _, h := range m.Headers {
		size += len(h.Key) + len(h.Value)
	}
	for _, h := range more {
		size += len(h.Key) + len(h.Value)
		if size > kafka.MaxHeaderBytes || len(m.Headers)+1 >= kafka.MaxRecordHeaders {
			return false
		}
		m.Headers = append(m.Headers, h)
	}
	return true
}

// cut shortens a dead letter to about most bytes, and notes the length of its record. It reports whether that was
// possible.
func (m *message) cut(most int64) bool {
	if m.Topic != schemas.DeadLetters || m.WireSize() <= most {
		return false
	}
	m.Headers = slices.Clone(m.Headers)
	whole := int64(len(m.Value))
	noted := false
	for i, h := range m.Headers {
		switch h.Key {
		case headerDeadKey:
			m.Headers[i].Value = h.Value[:min(len(h.Value), maxReasonBytes)]
		case headerDeadCut:
			noted = true
		}
	}
	if !noted {
		m.Headers = append(m.Headers, kafka.Header{Key: headerDeadCut, Value: strconv.AppendInt(nil, whole, 10)})
	}
	m.Value = m.Value[:min(whole, max(0, whole-(m.WireSize()-most)))]
	return int64(len(m.Value)) < whole || m.WireSize() <= most
}

// DeadLetter sets aside a record that was read with a [Reader], and waits for the ack.
func (p *Publisher) DeadLetter(ctx context.Context, stage string, rec Record, reason string) error {
	p.instruments.deadLettered(reasonClass(reason))
	if err := p.enqueue(ctx, deadLetter(stage, rec, reason)); err != nil {
		return err
	}
	return p.Flush(ctx)
}

// reason returns the text of a dead letter's reason.
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

// reasonClasses are the reasons that may label a metric. A reason may contain words of its record, so any other reason
// counts as "other".
var reasonClasses = []string{
	"malformed", "unknown schema", "invalid record", "foreign record", "unexpected record", "no seq header", "bad seq header",
	"broken batch", "oversized batch", "oversized headers", "record too large",
	"unusable image", "image came inline", "image bytes do not have the image id", "image missing", "image empty", "image forbidden",
	"image masked", "tar header", "tar cut", "tar no end", "entry name", "entry type", "entry oversize", "entry duplicate", "entry cut",
	"caption json", "caption empty", "caption encoding", "caption long", "caption missing", "caption many", "problems many",
	"behind the final seal", "duplicate pair",
}

// reasonClass returns the part of a reason up to the first colon, if it is one of the known classes.
func reasonClass(reason string) string {
	class, _, _ := strings.Cut(reason, ":")
	if slices.Contains(reasonClasses, class) {
		return class
	}
	return "other"
}

// DeadLetters yields the dead letters that are in the log now, oldest first and each record once. It skips repetitions
// after a crash, and records that another stage also set aside.
func (l *Log) DeadLetters(ctx context.Context) iter.Seq2[DeadLetter, error] {
	return l.DeadLettersFrom(ctx, 0)
}

// DeadLettersFrom is DeadLetters from the letter numbered first on.
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
			d, err := ParseDeadLetter(rec)
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

// ParseDeadLetter reads a record of the topic dead-letters.
func ParseDeadLetter(rec Record) (DeadLetter, error) {
	text := func(name string) string {
		v, _ := rec.Header(name)
		return string(v)
	}
	d := DeadLetter{
		Number: rec.Offset,
		Topic:  schemas.Topic(text(headerDeadTopic)), Stage: text(headerDeadStage), Reason: display.Redacted(text(headerDeadReason)),
		Schema: rec.Schema, Value: rec.Value, Time: rec.Time,
	}
	var err, lerr, oerr error
	d.Lane, lerr = strconv.Atoi(text(headerDeadLane))
	d.Offset, oerr = strconv.ParseInt(text(headerDeadOffset), 10, 64)
	if d.Topic == "" || lerr != nil || oerr != nil {
		return d, fmt.Errorf("headers %s, %s, %s do not name a record", headerDeadTopic, headerDeadLane, headerDeadOffset)
	}
	for _, h := range rec.Headers {
		switch {
		case h.Key == headerDeadKey:
			d.Key = h.Value
		case h.Key == headerDeadCut:
			if d.Cut, err = strconv.ParseInt(string(h.Value), 10, 64); err != nil {
				return d, fmt.Errorf("header %s: %w", headerDeadCut, err)
			}
		case !strings.HasPrefix(h.Key, "dl-"):
			d.Headers = append(d.Headers, h)
		}
	}
	return d, nil
}

// Republish writes a dead letter's record again, at the end of the lane that it came from. Only records of outside
// producers can go back: a stage's record has a seq, and its position is taken.
func (p *Publisher) Republish(ctx context.Context, d DeadLetter) error {
	if d.Cut > 0 {
		return fmt.Errorf("republishing %s, lane %d, offset %d: the dead letter has only %d of its %d bytes",
			d.Topic, d.Lane, d.Offset, len(d.Value), d.Cut)
	}
	if Sequenced(d.Topic) {
		return fmt.Errorf("republishing %s, lane %d, offset %d: its records are numbered by the stage that wrote them",
			d.Topic, d.Lane, d.Offset)
	}
	return p.enqueue(ctx, message{Message: kafka.Message{Topic: d.Topic, Lane: d.Lane, Key: d.Key, Value: d.Value, Headers: d.Headers}})
}
