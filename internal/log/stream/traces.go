package stream

import (
	"context"
	"time"

	"github.com/pairstream/pairstream/internal/base/timing"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/tracing"
	"github.com/pairstream/pairstream/schemas"
)

// traced links a message to sampled pairs.
type traced struct {
	about  []tracing.Subject
	queued time.Time
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
	m.traced = &traced{about, time.Now()}
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
	span := tracing.Span{Name: p.name + " publish", From: m.traced.queued, To: time.Now()}
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
			Name: o.pub.name + " work", From: o.call.began, To: m.traced.queued, Within: o.call.phases.List(), Root: m.Topic == schemas.Batches,
		})
	}
	return m
}

// Waited records that a sampled record has waited for a stage until now.
func (l *Log) Waited(stage string, rec *Record) {
	if l.tracer == nil {
		return
	}
	parent, ok := rec.Header(tracing.Header)
	if !ok {
		return
	}
	from, now := rec.Time, time.Now()
	if from.After(now) { // the broker's clock differs
		from = now
	}
	l.tracer.Record(tracing.Parse(parent), tracing.Span{Name: stage + " wait", From: from, To: now})
}
