// Package stagetest drives a stage's adapter without a broker. A test puts records in by hand, and the package keeps
// what the stage does in order.
package stagetest

import (
	"log/slog"
	"testing"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// Event is one thing that a stage did: it emitted a record, or set one aside.
type Event struct {
	Topic  schemas.Topic
	Record schemas.Record // nil: Dead was set aside
	Resume stream.Mark
	Dead   stream.Record
	Reason string
}

// Output keeps what a stage does. Its marks hold the position of one record, as those of the log do. Methods of the
// interface that adapters do not call panic.
type Output struct {
	stream.Output
	Events []Event
}

// Emit implements [stream.Output].
func (o *Output) Emit(topic schemas.Topic, rec schemas.Record, resume stream.Mark) error {
	if _, err := schemas.Marshal(rec); err != nil {
		return err
	}
	o.Events = append(o.Events, Event{Topic: topic, Record: rec, Resume: resume})
	return nil
}

// DeadLetter implements [stream.Output].
func (o *Output) DeadLetter(rec stream.Record, reason string) error {
	o.Events = append(o.Events, Event{Dead: rec, Reason: reason})
	return nil
}

// Before implements [stream.Output].
func (o *Output) Before(rec stream.Record, state []byte) stream.Mark {
	return mark(rec.Topic, rec.Position(), state)
}

// After implements [stream.Output].
func (o *Output) After(rec stream.Record, state []byte) stream.Mark {
	return mark(rec.Topic, rec.Next(), state)
}

func mark(topic schemas.Topic, at stream.Position, state []byte) stream.Mark {
	return stream.Mark{Inputs: []stream.TopicPosition{{Topic: topic, Position: at}}, State: state}
}

// Record returns a message of lane 0 at an offset, which is also its seq.
func Record(t testing.TB, topic schemas.Topic, offset int64, rec schemas.Record) stream.Record {
	t.Helper()
	value := must.Get(schemas.Marshal(rec))(t)
	return stream.Record{Topic: topic, Offset: offset, Seq: offset, Schema: rec.Schema(), Value: value}
}

// Instruments returns the instruments of a stage whose log nobody reads.
func Instruments(t testing.TB, name string) (*service.Instruments, service.Runtime) {
	t.Helper()
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	instruments := must.Get(rt.NewInstruments(name, nil))(t)
	return instruments, rt
}

// Metric returns the sum of a metric over its labels.
func Metric(t testing.TB, rt service.Runtime, name string) float64 {
	t.Helper()
	families := must.Get(rt.Registry.Gather())(t)
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}
