package stream

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/pairstream/pairstream/internal/base/timing"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/tracing"
	"github.com/pairstream/pairstream/schemas"
)

// traced links a message to sampled pairs.
type traced struct {
	about  []tracing.Subject
	queued time.Time
	offset int64 // of the message, once the brokers have told it; -1: unknown
}

// trace prepares the span of a message that is about to be queued, and gives it a header for its readers.
func (p *Publisher) trace(ctx context.Context, rec schemas.Record, m message) message {
	if p.log.tracer == nil {
		return m
	}
	about := p.log.tracer.Of(rec)
	if about == nil {
		about = tracing.About(ctx)
	}
	return m.of(about)
}

// traceBytes is trace for an encoded value. It follows only pairs.
func (p *Publisher) traceBytes(m message, schema string) message {
	if p.log.tracer == nil || schema != schemas.SchemaPair {
		return m
	}
	id, ok := schemas.PairIDOf(m.Value)
	if !ok { // the encoder sets it aside
		return m
	}
	return m.of(p.log.tracer.Of(&schemas.Pair{ID: id}))
}

func (m message) of(about []tracing.Subject) message {
	if about == nil {
		return m
	}
	m.traced = &traced{about, time.Now(), kafka.Unknown}
	if parent := tracing.Traceparent(about); parent != "" {
		m.Headers = append(m.Headers, kafka.Header{Key: tracing.Header, Value: []byte(parent)})
	}
	return m
}

// published records how long a message took until the brokers had it. A pair's trace begins with its publishing.
func (p *Publisher) published(m *message) {
	if m.traced == nil {
		return
	}
	sent := tracing.Message{Topic: p.log.Name(m.Topic), Lane: m.Lane, Key: m.Key, Offset: m.traced.offset, Bytes: len(m.Value)}
	span := tracing.Span{
		Stage: p.name, Name: p.name + " publish", From: m.traced.queued, To: time.Now(), Kind: trace.SpanKindProducer, Lane: m.Lane, Message: sent.Sent(),
	}
	if m.Topic == schemas.Pairs {
		span.Name, span.Root = "publish", true
	}
	p.log.tracer.Record(m.traced.about, span)
}

// call is a stage's running call.
type call struct {
	began  time.Time
	phases *timing.Collector
}

// begin begins a call, whose phases are collected if there is a tracer.
func (o *output) begin(work context.Context) context.Context {
	if o.pub.log.tracer == nil {
		return work
	}
	o.call = call{time.Now(), new(timing.Collector)}
	return timing.With(work, o.call.phases)
}

// trace records how long the stage has worked on the subjects of a record. A mini-batch's trace begins when it is made.
func (o *output) trace(rec schemas.Record, m message) message {
	tracer := o.pub.log.tracer
	if tracer == nil {
		return m
	}
	m = m.of(tracer.Of(rec))
	if m.traced != nil {
		tracer.Record(m.traced.about, tracing.Span{
			Stage: o.pub.name, Name: o.pub.name + " work", From: o.call.began, To: m.traced.queued, Within: o.call.phases.List(), Lane: m.Lane,
			Root: m.Topic == schemas.Batches,
		})
	}
	return m
}

// at remembers the offset that a followed message got.
func (b batch) at(offset int64) {
	for i := range b {
		if t := b[i].traced; t != nil {
			t.offset = offset + int64(i)
		}
	}
}

// Waited records that a sampled record has waited for a stage until now. Where no traced program has written the record,
// the trace begins with this span.
func (l *Log) Waited(stage string, rec *Record) {
	if l.tracer == nil {
		return
	}
	header, _ := rec.Header(tracing.Header)
	about, root := tracing.Received(l.subjects(rec, header), header)
	if about == nil {
		return
	}
	from, now := rec.Time, time.Now()
	if from.After(now) { // the broker's clock differs
		from = now
	}
	taken := tracing.Message{Topic: l.Name(rec.Topic), Lane: rec.Lane, Key: rec.Key, Offset: rec.Offset, Bytes: len(rec.Value)}
	l.tracer.Record(about, tracing.Span{
		Stage: stage, Name: stage + " wait", From: from, To: now, Root: root, Kind: trace.SpanKindConsumer, Lane: rec.Lane, Message: taken.Received(l.cfg.GroupID(stage)),
	})
}

// subjects returns the sampled subjects of a record, without decoding more of it than needed.
func (l *Log) subjects(rec *Record, header []byte) []tracing.Subject {
	switch rec.Schema {
	case schemas.SchemaPair, schemas.SchemaEmbedding, schemas.SchemaRefusal:
		id, ok := schemas.PairIDOf(rec.Value)
		if !ok {
			return nil // the stage sets it aside
		}
		return l.tracer.Of(&schemas.Refusal{ID: id})
	case schemas.SchemaBatch, schemas.SchemaScoredBatch:
	default:
		if header == nil { // a chunk of several sampled pairs, whose traces have begun before
			return nil
		}
	}
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return nil // the stage sets it aside
	}
	return l.tracer.Of(value)
}
