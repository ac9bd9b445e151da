package tracing

import (
	"context"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// tellEvery is the least time between two reports of lost spans.
const tellEvery = time.Minute

// sender sends spans, and counts the lost ones. OpenTelemetry's library would print a line for each attempt.
type sender struct {
	sdktrace.SpanExporter
	lost func(spans int, err error)

	mu    sync.Mutex
	count int // since lost was told
	err   error
	told  time.Time
}

// ExportSpans implements OpenTelemetry's SpanExporter.
func (s *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count, s.err = s.count+len(spans), err
	if time.Since(s.told) >= tellEvery {
		s.tell()
	}
	return nil
}

// Shutdown implements OpenTelemetry's SpanExporter.
func (s *sender) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.tell()
	s.mu.Unlock()
	return s.SpanExporter.Shutdown(ctx)
}

// tell reports the spans lost since the last report. The caller holds mu.
func (s *sender) tell() {
	if s.count > 0 && s.lost != nil {
		s.lost(s.count, s.err)
	}
	s.count, s.told = 0, time.Now()
}
