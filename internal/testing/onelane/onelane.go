// Package onelane runs the stage of one lane over topics in memory and crashes it wherever a test asks. So the marks of
// a real adapter are tried at every record.
//
// The factory of a stage and the records of its inputs go in; the records of its outputs and its dead letters come out.
// The promises of package stream hold here, with no broker in between. A new owner starts from the furthest mark that
// is covered. What it produces again must be what the log holds already.
//
// A Log belongs to one goroutine.
package onelane

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// stride makes offsets differ from seqs, as repetitions do in a real log.
const stride = 2

// errCrash ends a run where the test asked for it.
var errCrash = errors.New("crash")

// Log holds one lane of some topics.
type Log struct {
	t       *testing.T
	lane    int
	topics  map[schemas.Topic][]record
	Letters []Letter
	Read    int // records that the latest owner took before it added its first
	// Answer, when set, is called with every record that a stage adds. It may append others, as the stages after it would.
	Answer func(schemas.Topic, schemas.Record)
}

type record struct {
	stream.Record
	mark stream.Mark
}

// Letter is a record that a stage set aside.
type Letter struct {
	Topic  schemas.Topic
	Seq    int64
	Reason string
}

// New makes an empty log.
func New(t *testing.T, lane int) *Log {
	return &Log{t: t, lane: lane, topics: make(map[schemas.Topic][]record)}
}

// Clone returns an independent copy.
func (l *Log) Clone() *Log {
	c := New(l.t, l.lane)
	c.topics = maps.Clone(l.topics)
	for topic, records := range c.topics {
		c.topics[topic] = slices.Clip(records)
	}
	c.Letters = slices.Clone(l.Letters)
	return c
}

// Append adds records to an input.
func (l *Log) Append(topic schemas.Topic, records ...schemas.Record) {
	l.t.Helper()
	for _, r := range records {
		l.append(topic, r, stream.Mark{})
	}
}

func (l *Log) append(topic schemas.Topic, r schemas.Record, mark stream.Mark) {
	l.t.Helper()
	value, err := schemas.Marshal(r)
	if err != nil {
		l.t.Fatalf("encoding a record of %s: %v", topic, err)
	}
	seq := int64(len(l.topics[topic]))
	l.topics[topic] = append(l.topics[topic], record{
		stream.Record{Topic: topic, Lane: l.lane, Offset: stride * seq, Seq: seq, Schema: r.Schema(), Value: value}, mark,
	})
}

// Len returns the number of records of a topic.
func (l *Log) Len(topic schemas.Topic) int { return len(l.topics[topic]) }

// Values returns the bytes of a topic's records.
func (l *Log) Values(topic schemas.Topic) [][]byte {
	values := make([][]byte, 0, l.Len(topic))
	for _, r := range l.topics[topic] {
		values = append(values, r.Value)
	}
	return values
}

// States returns what stages have kept in the marks of a topic's records.
func (l *Log) States(topic schemas.Topic) [][]byte {
	states := make([][]byte, 0, l.Len(topic))
	for _, r := range l.topics[topic] {
		states = append(states, r.mark.State)
	}
	return states
}

// Records returns a topic's records.
func (l *Log) Records(topic schemas.Topic) []schemas.Record {
	l.t.Helper()
	out := make([]schemas.Record, 0, l.Len(topic))
	for _, r := range l.topics[topic] {
		value := must.Get(schemas.Unmarshal(r.Schema, r.Value))(l.t)
		out = append(out, value)
	}
	return out
}

// Damage changes the bytes of one record.
func (l *Log) Damage(topic schemas.Topic, seq int, change func(value []byte) []byte) {
	r := l.topics[topic][seq]
	r.Value = change(slices.Clone(r.Value))
	l.topics[topic] = slices.Clone(l.topics[topic])
	l.topics[topic][seq] = r
}

// Cut removes the last n records of a topic, which the brokers had not acknowledged when the owner died.
func (l *Log) Cut(topic schemas.Topic, n int) {
	l.topics[topic] = l.topics[topic][:max(0, l.Len(topic)-n)]
}

// Run takes the lane over and processes what its inputs hold. With a limit of 0 or more, the owner dies before it adds
// the record with that number, counted from 0 in this run. Run reports whether the owner died.
func (l *Log) Run(spec stream.StageSpec, limit int) (died bool) {
	l.t.Helper()
	mark := l.furthest(spec)
	stage, err := spec.New(l.lane, slices.Clone(mark.State))
	if err != nil {
		l.t.Fatalf("making the stage of lane %d from state %q: %v", l.lane, mark.State, err)
	}
	if c, ok := stage.(io.Closer); ok {
		defer func() { must.Check(l.t, c.Close()) }()
	}
	o := &output{log: l, spec: spec, seqs: map[schemas.Topic]int64{}, next: map[schemas.Topic]stream.Position{}, limit: limit}
	for _, s := range mark.Seqs {
		o.seqs[s.Topic] = s.Seq
	}
	for _, p := range mark.Inputs {
		o.next[p.Topic] = p.Position
	}
	l.Read = 0
	err = o.drive(stage)
	if err != nil && !errors.Is(err, errCrash) {
		l.t.Fatal(err)
	}
	return err != nil
}

// furthest returns the furthest mark, among those at the ends of the outputs, behind which nothing is missing.
func (l *Log) furthest(spec stream.StageSpec) stream.Mark {
	var best stream.Mark
	found := false
	for _, t := range spec.Outputs {
		records := l.topics[t]
		if len(records) == 0 {
			continue
		}
		m := records[len(records)-1].mark
		covered := !slices.ContainsFunc(m.Seqs, func(s stream.TopicSeq) bool { return s.Seq > int64(l.Len(s.Topic)) })
		if covered && (!found || slices.Compare(places(m, spec), places(best, spec)) > 0) {
			best, found = m, true
		}
	}
	return best
}

// places returns the numbers by which marks are compared: inputs first, then outputs.
func places(m stream.Mark, spec stream.StageSpec) []int64 {
	out := make([]int64, 0, len(spec.Inputs)+len(spec.Outputs))
	for _, t := range spec.Inputs {
		at := slices.IndexFunc(m.Inputs, func(p stream.TopicPosition) bool { return p.Topic == t })
		if at < 0 {
			out = append(out, 0)
		} else {
			out = append(out, m.Inputs[at].Offset)
		}
	}
	for _, t := range spec.Outputs {
		at := slices.IndexFunc(m.Seqs, func(s stream.TopicSeq) bool { return s.Topic == t })
		if at < 0 {
			out = append(out, 0)
		} else {
			out = append(out, m.Seqs[at].Seq)
		}
	}
	return out
}

// output is the stream.Output of one run.
type output struct {
	log   *Log
	spec  stream.StageSpec
	seqs  map[schemas.Topic]int64           // of the next records of the outputs
	next  map[schemas.Topic]stream.Position // of the inputs
	added int
	limit int
}

func (o *output) drive(stage stream.Stage) error {
	ctx := context.Background()
	for {
		topic := stage.Input()
		at := (o.next[topic].Offset + stride - 1) / stride
		for at < int64(o.log.Len(topic)) && o.log.topics[topic][at].Seq < o.next[topic].Seq {
			at++
		}
		if at == int64(o.log.Len(topic)) {
			return stage.Flush(ctx, o)
		}
		rec := o.log.topics[topic][at].Record
		o.next[topic] = rec.Next()
		if o.added == 0 {
			o.log.Read++
		}
		switch err := stage.Process(ctx, rec, o); {
		case errors.Is(err, stream.ErrPoison):
			if err := o.DeadLetter(rec, err.Error()); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
}

// Emit implements [stream.Output].
func (o *output) Emit(topic schemas.Topic, r schemas.Record, resume stream.Mark) error {
	o.log.t.Helper()
	if !slices.Contains(o.spec.Outputs, topic) {
		o.log.t.Fatalf("the stage writes to %s", topic)
	}
	seq := o.seqs[topic]
	o.seqs[topic]++
	if seq < int64(o.log.Len(topic)) {
		o.compare(topic, seq, r)
		return nil
	}
	if o.added == o.limit {
		return errCrash
	}
	o.added++
	if resume.Seqs == nil {
		resume.Seqs = o.places()
	}
	for _, p := range resume.Inputs {
		if slices.Contains(o.spec.Rereads, p.Topic) {
			if p.Offset > p.Seq || p.Seq > resume.Seqs[slices.Index(o.spec.Outputs, p.Topic)].Seq {
				o.log.t.Errorf("seq %d of %s: its mark wants seq %d at offset %d of %s again", seq, topic, p.Seq, p.Offset, p.Topic)
			}
			continue
		}
		if p.Offset > o.next[p.Topic].Offset {
			o.log.t.Errorf("seq %d of %s: its mark lies at offset %d of %s, which was not read", seq, topic, p.Offset, p.Topic)
		}
	}
	o.log.append(topic, r, resume)
	if o.log.Answer != nil {
		o.log.Answer(topic, r)
	}
	return nil
}

// compare checks that a record that is made again is the one that the log holds.
func (o *output) compare(topic schemas.Topic, seq int64, r schemas.Record) {
	o.log.t.Helper()
	value := must.Get(schemas.Marshal(r))(o.log.t)
	if !bytes.Equal(value, o.log.topics[topic][seq].Value) {
		o.log.t.Fatalf("seq %d of %s is another record when it is made again", seq, topic)
	}
}

func (o *output) places() []stream.TopicSeq {
	out := make([]stream.TopicSeq, 0, len(o.spec.Outputs))
	for _, t := range o.spec.Outputs {
		out = append(out, stream.TopicSeq{Topic: t, Seq: o.seqs[t]})
	}
	return out
}

func (o *output) inputs(at stream.Record, p stream.Position) []stream.TopicPosition {
	out := make([]stream.TopicPosition, 0, len(o.spec.Inputs))
	for _, t := range o.spec.Inputs {
		place := o.next[t]
		if t == at.Topic {
			place = p
		}
		out = append(out, stream.TopicPosition{Topic: t, Position: place})
	}
	return out
}

// Before implements [stream.Output].
func (o *output) Before(rec stream.Record, state []byte) stream.Mark {
	return stream.Mark{Inputs: o.inputs(rec, rec.Position()), Seqs: o.places(), State: state}
}

// After implements [stream.Output].
func (o *output) After(rec stream.Record, state []byte) stream.Mark {
	return stream.Mark{Inputs: o.inputs(rec, rec.Next()), State: state}
}

// Mark implements [stream.Output].
func (o *output) Mark(state []byte) stream.Mark {
	return stream.Mark{Inputs: o.inputs(stream.Record{}, stream.Position{}), Seqs: o.places(), State: state}
}

// EmitBytes implements [stream.Output].
func (o *output) EmitBytes(schemas.Topic, string, []byte, stream.Mark) error {
	return errors.New("not for tests")
}

// DeadLetter implements [stream.Output]. A crash may repeat a letter; readers skip repetitions.
func (o *output) DeadLetter(rec stream.Record, reason string) error {
	letter := Letter{rec.Topic, rec.Seq, reason}
	if !slices.Contains(o.log.Letters, letter) {
		o.log.Letters = append(o.log.Letters, letter)
	}
	return nil
}
