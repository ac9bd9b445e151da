// Package tracing follows sampled pairs through the stages with OpenTelemetry.
//
// The id of a pair is the id of its trace. So every stage samples the same pairs, in every run, without any exchange. A
// mini-batch with a sampled pair has its own trace, whose spans link to its pairs. A step's span links to its
// mini-batches. Headers carry the context in W3C's form for other programs.
//
// Spans are recorded when they end, with the times that the stages took. A nil [Tracer] is off, and costs nothing.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pairstream/pairstream/internal/base/timing"
	"github.com/pairstream/pairstream/internal/base/version"
	"github.com/pairstream/pairstream/schemas"
)

// Config tells where spans go. OpenTelemetry's library reads its other variables itself: headers, certificates,
// timeouts.
type Config struct {
	Endpoint string  // for HTTP, such as http://jaeger:4318; empty: no tracing
	Ratio    float64 // share of the pairs that are sampled
	// Lost receives the number of spans that could not be sent, and the cause: at once, then at most once a minute, and
	// at the end.
	Lost func(spans int, err error)
}

// Header names the header of a record with a sampled pair or mini-batch: W3C's trace context.
const Header = "traceparent"

// Tracer records spans. It is safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	bound    uint64 // ids below it are sampled, as OpenTelemetry's TraceIDRatioBased does
}

// newExporter makes the exporter of spans; see [UseExporter].
var newExporter func(context.Context) (sdktrace.SpanExporter, error)

// UseExporter sets the exporter of spans; see package otlp. A program calls it before it makes a tracer.
func UseExporter(n func(context.Context) (sdktrace.SpanExporter, error)) { newExporter = n }

// New makes a tracer. It is nil without an endpoint.
func New(ctx context.Context, c Config) (*Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	if newExporter == nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is %q, but this program sends no traces: leave it empty", c.Endpoint)
	}
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT is %q: %w", c.Endpoint, err)
	}
	about, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(attribute.String("service.name", "pairstream"), attribute.String("service.version", version.String())), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(&sender{SpanExporter: exporter, lost: c.Lost}), sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(ids{}))
	return &Tracer{provider, provider.Tracer("github.com/pairstream/pairstream"), boundOf(c.Ratio)}, nil
}

func boundOf(ratio float64) uint64 {
	if ratio >= 1 {
		return math.MaxUint64
	}
	return uint64(ratio * (1 << 63))
}

// closeTime bounds the time for spans that have not been sent yet.
const closeTime = 5 * time.Second

// Close sends the remaining spans.
func (t *Tracer) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	return errors.Join(t.provider.ForceFlush(ctx), t.provider.Shutdown(ctx))
}

// Subject is the subject of a span: a sampled pair, or a mini-batch with sampled pairs.
type Subject struct {
	Context trace.SpanContext // of the trace's first span
	Links   []trace.SpanContext
}

type aboutKey struct{}

// WithAbout returns a context for publishing records about the subjects.
func WithAbout(ctx context.Context, subjects []Subject) context.Context {
	if subjects == nil {
		return ctx
	}
	return context.WithValue(ctx, aboutKey{}, subjects)
}

// About returns the subjects of a context.
func About(ctx context.Context) []Subject {
	subjects, _ := ctx.Value(aboutKey{}).([]Subject)
	return subjects
}

// pair returns the context of a pair, if it is sampled.
func (t *Tracer) pair(id schemas.PairID) (trace.SpanContext, bool) {
	if binary.BigEndian.Uint64(id[8:])>>1 >= t.bound {
		return trace.SpanContext{}, false
	}
	return first(trace.TraceID(id)), true
}

// first returns the context of the first span of a trace.
func first(id trace.TraceID) trace.SpanContext {
	sum := sha256.Sum256(id[:])
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled, Remote: true})
}

// Of returns the sampled subjects of a record.
func (t *Tracer) Of(rec schemas.Record) []Subject {
	if t == nil {
		return nil
	}
	switch r := rec.(type) {
	case *schemas.Pair:
		return t.one(r.ID)
	case *schemas.Embedding:
		return t.one(r.ID)
	case *schemas.Refusal:
		return t.one(r.ID)
	case *schemas.NeighborChunk:
		var list []Subject
		for i := range r.Members() {
			list = append(list, t.one(r.ID(i))...)
		}
		return list
	case *schemas.Batch:
		return t.batch(r)
	case *schemas.ScoredBatch:
		return t.batch(&r.Batch)
	}
	return nil
}

func (t *Tracer) one(id schemas.PairID) []Subject {
	if c, ok := t.pair(id); ok {
		return []Subject{{Context: c}}
	}
	return nil
}

func (t *Tracer) batch(b *schemas.Batch) []Subject {
	var links []trace.SpanContext
	for i := range b.Samples {
		if c, ok := t.pair(b.Samples[i].ID); ok {
			links = append(links, c)
		}
	}
	if links == nil {
		return nil
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "mini-batch %s %d %d", b.Group, b.Epoch, b.Sequence))
	return []Subject{{first(trace.TraceID(sum[:16])), links}}
}

// Traceparent returns the header for a sampled subject, or "" for several.
func Traceparent(subjects []Subject) string {
	if len(subjects) != 1 {
		return ""
	}
	c := subjects[0].Context
	return fmt.Sprintf("00-%s-%s-01", c.TraceID(), c.SpanID())
}

// Parse reads the header of a record. It returns nothing if the header is no context, or not sampled.
func Parse(header []byte) []Subject {
	var version, flags [1]byte
	var id trace.TraceID
	var span trace.SpanID
	if len(header) != 55 || !decode(version[:], header[0:2]) || !decode(id[:], header[3:35]) || !decode(span[:], header[36:52]) || !decode(flags[:], header[53:55]) {
		return nil
	}
	c := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags[0]), Remote: true})
	if !c.IsValid() || !c.IsSampled() {
		return nil
	}
	return []Subject{{Context: c}}
}

// Span is a piece of work that has ended.
type Span struct {
	Name     string
	From, To time.Time
	Root     bool // the first span of its trace
	Within   []timing.Phase
	Facts    map[string]string
}

// Record records a span for all of its subjects.
func (t *Tracer) Record(subjects []Subject, s Span) {
	if t == nil {
		return
	}
	for _, about := range subjects {
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), about.Context)
		if s.Root {
			ctx = withID(context.Background(), about.Context)
		}
		options := []trace.SpanStartOption{trace.WithTimestamp(s.From)}
		for _, link := range about.Links {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: link}))
		}
		for name, value := range s.Facts {
			options = append(options, trace.WithAttributes(attribute.String(name, value)))
		}
		ctx, span := t.tracer.Start(ctx, s.Name, options...)
		for _, p := range s.Within {
			_, inner := t.tracer.Start(ctx, p.Name, trace.WithTimestamp(p.From))
			inner.End(trace.WithTimestamp(p.To))
		}
		span.End(trace.WithTimestamp(s.To))
	}
}

// Step returns the subjects of a training step: its mini-batches with sampled pairs.
func Step(batches []Subject, step int64) []Subject {
	if len(batches) == 0 {
		return nil
	}
	var links []trace.SpanContext
	for _, b := range batches {
		links = append(links, b.Context)
	}
	id := batches[0].Context.TraceID()
	sum := sha256.Sum256(fmt.Appendf(id[:], "step %d", step))
	return []Subject{{first(trace.TraceID(sum[:16])), links}}
}

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
func (ids) NewSpanID(context.Context, trace.TraceID) (span trace.SpanID) {
	fill(span[:])
	return span
}

// fill fills an id, which must not be zero.
func fill(id []byte) {
	for i := range id {
		id[i] = byte(rand.IntN(255)) + 1
	}
}

func decode(into, digits []byte) bool {
	_, err := hex.Decode(into, digits)
	return err == nil
}
