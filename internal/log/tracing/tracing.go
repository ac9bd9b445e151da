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
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
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
	about *resource.Resource
	sink  sdktrace.SpanProcessor // of all services
	bound uint64                 // ids below it are sampled, as OpenTelemetry's TraceIDRatioBased does

	mu       sync.Mutex
	services map[string]trace.Tracer // by stage
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
	// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override the name that each stage has.
	about, err := resource.New(ctx, resource.WithHost(), resource.WithAttributes(semconv.ServiceVersion(version.String())), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	sink := sdktrace.NewBatchSpanProcessor(&sender{SpanExporter: exporter, lost: c.Lost})
	return &Tracer{about: about, sink: sink, bound: boundOf(c.Ratio), services: make(map[string]trace.Tracer)}, nil
}

// of returns the tracer of a stage, which is a service of its own even where one process runs all stages.
func (t *Tracer) of(stage string) trace.Tracer {
	t.mu.Lock()
	defer t.mu.Unlock()
	tracer, ok := t.services[stage]
	if !ok {
		about := t.about
		if _, named := about.Set().Value(semconv.ServiceNameKey); !named {
			// The attributes have no schema, so they merge with any.
			merged, err := resource.Merge(about, resource.NewSchemaless(semconv.ServiceName("pairstream-"+stage)))
			if err == nil {
				about = merged
			}
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(t.sink), sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(ids{}))
		tracer = provider.Tracer("github.com/pairstream/pairstream")
		t.services[stage] = tracer
	}
	return tracer
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
	return errors.Join(t.sink.ForceFlush(ctx), t.sink.Shutdown(ctx))
}

// Subject is the subject of a span: a sampled pair, or a mini-batch with sampled pairs.
type Subject struct {
	Context trace.SpanContext // of the trace's first span
	Links   []trace.SpanContext
	Facts   []attribute.KeyValue // of every span, for filters: the pair, or the mini-batch's lane, group and epoch

	parent trace.SpanContext // of the first span, where a program of others has begun the trace
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
			for _, s := range t.one(r.ID(i)) {
				s.Facts = append(s.Facts, group(r.Group)...)
				list = append(list, s)
			}
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
		return []Subject{{Context: c, Facts: []attribute.KeyValue{attribute.String("pairstream.pair", id.String())}}}
	}
	return nil
}

// group returns the facts of a group.
func group(g schemas.GroupID) []attribute.KeyValue {
	return []attribute.KeyValue{Lane(int(g.Lane)), attribute.String("pairstream.group", g.String())}
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
	facts := append(group(b.Group), attribute.Int("pairstream.epoch", int(b.Epoch)), attribute.Int64("pairstream.batch", int64(b.Sequence)))
	return []Subject{{Context: first(trace.TraceID(sum[:16])), Links: links, Facts: facts}}
}

// Received returns the subjects of a record that a stage has received, given its own and the record's header. root
// tells that no traced program of pairstream wrote it: the stage's span is the first one of the trace. A span in the
// header of another program becomes its parent, or its link where its trace has another id.
func Received(own []Subject, header []byte) (about []Subject, root bool) {
	from := Parse(header)
	if len(own) != 1 || from != nil && from[0].Context.Equal(own[0].Context) {
		if len(own) == 1 {
			return own, false
		}
		return from, false // another ratio samples it
	}
	s := own[0]
	switch {
	case from == nil:
	case from[0].Context.TraceID() == s.Context.TraceID():
		s.parent = from[0].Context
	default:
		s.Links = append(slices.Clone(s.Links), from[0].Context)
	}
	return []Subject{s}, true
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
	Stage    string // names the service
	Name     string
	From, To time.Time
	Root     bool // the first span of its trace
	Within   []timing.Phase
	Kind     trace.SpanKind       // 0: internal
	Lane     int                  // -1: of several
	Message  []attribute.KeyValue // of the record that was read or written
}

// Record records a span for all of its subjects.
func (t *Tracer) Record(subjects []Subject, s Span) {
	if t == nil || len(subjects) == 0 {
		return
	}
	tracer := t.of(s.Stage)
	for _, about := range subjects {
		facts := about.Facts
		if s.Lane >= 0 {
			facts = append(slices.Clone(facts), Lane(s.Lane))
		}
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), about.Context)
		if s.Root {
			ctx = withID(trace.ContextWithRemoteSpanContext(context.Background(), about.parent), about.Context)
		}
		options := []trace.SpanStartOption{trace.WithTimestamp(s.From), trace.WithSpanKind(s.Kind), trace.WithAttributes(facts...), trace.WithAttributes(s.Message...)}
		for _, link := range about.Links {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: link}))
		}
		_, span := tracer.Start(ctx, s.Name, options...)
		within := trace.ContextWithSpan(context.Background(), span)
		for _, p := range s.Within {
			_, inner := tracer.Start(within, p.Name, trace.WithTimestamp(p.From), trace.WithAttributes(facts...))
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
	facts := slices.Clone(batches[0].Facts)
	for _, b := range batches {
		links = append(links, b.Context)
		facts = slices.DeleteFunc(facts, func(f attribute.KeyValue) bool { return !slices.Contains(b.Facts, f) }) // its batches' common ones
	}
	facts = append(facts, attribute.Int64("pairstream.step", step))
	id := batches[0].Context.TraceID()
	sum := sha256.Sum256(fmt.Appendf(id[:], "step %d", step))
	return []Subject{{Context: first(trace.TraceID(sum[:16])), Links: links, Facts: facts}}
}

func decode(into, digits []byte) bool {
	_, err := hex.Decode(into, digits)
	return err == nil
}
