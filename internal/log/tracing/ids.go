package tracing

import (
	"context"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

// ids gives the first span of a trace its predictable ids, and other spans random ones.
type ids struct{}

type idKey struct{}

func withID(ctx context.Context, c trace.SpanContext) context.Context {
	return context.WithValue(ctx, idKey{}, c)
}

// NewIDs implements OpenTelemetry's IDGenerator.
func (g ids) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	if c, ok := ctx.Value(idKey{}).(trace.SpanContext); ok {
		return c.TraceID(), c.SpanID()
	}
	fill(id[:])
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements OpenTelemetry's IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) (span trace.SpanID) {
	if c, ok := ctx.Value(idKey{}).(trace.SpanContext); ok {
		return c.SpanID()
	}
	fill(span[:])
	return span
}

// fill fills an id, which must not be zero.
func fill(id []byte) {
	for i := range id {
		id[i] = byte(rand.IntN(255)) + 1
	}
}
