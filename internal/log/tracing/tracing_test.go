package tracing

import (
	"bytes"
	"context"
	"encoding/hex"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pairstream/pairstream/internal/base/timing"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/otlptest"
	"github.com/pairstream/pairstream/schemas"
)

// sendTo lets the test send spans to a collector, as package otlp does for programs.
func sendTo(t *testing.T, collector string) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
	UseExporter(func(ctx context.Context) (sdktrace.SpanExporter, error) { return otlptracehttp.New(ctx) })
	t.Cleanup(func() { UseExporter(nil) })
}

func open(t *testing.T, ratio float64) (*Tracer, *otlptest.Receiver) {
	t.Helper()
	r := otlptest.New(t)
	sendTo(t, r.URL)
	tracer := must.Get(New(t.Context(), Config{Endpoint: r.URL, Ratio: ratio}))(t)
	return tracer, r
}

func pair(i byte) schemas.PairID {
	return schemas.NewPairID(schemas.NewImageID([]byte{i}), "a caption")
}

// TestSamplesAsOpenTelemetryDoes: programs in other languages with the sampler traceidratio choose the same pairs.
func TestSamplesAsOpenTelemetryDoes(t *testing.T) {
	for _, ratio := range []float64{0, 0.001, 0.3, 1} {
		tracer := &Tracer{bound: boundOf(ratio)}
		standard := sdktrace.TraceIDRatioBased(ratio)
		for i := range 250 {
			id := pair(byte(i))
			_, got := tracer.pair(id)
			want := standard.ShouldSample(sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: trace.TraceID(id)}).Decision == sdktrace.RecordAndSample
			if got != want {
				t.Fatalf("at %g, pair %s is sampled: %t, want %t", ratio, id, got, want)
			}
		}
	}
}

// TestSpansOfABatch: the first span of a mini-batch's trace is known beforehand, links to its sampled pairs, and has
// its phases inside.
func TestSpansOfABatch(t *testing.T) {
	tracer, r := open(t, 1)
	b := &schemas.Batch{Samples: []schemas.Sample{{ID: pair(1)}, {ID: pair(2)}}, Epoch: 3}
	about := tracer.Of(b)
	var phases timing.Collector
	end := timing.Begin(timing.With(t.Context(), &phases), timing.Fetch)
	end()
	first := phases.List()[0]
	timing.Begin(timing.With(t.Context(), &phases), timing.Fetch)()
	if again := phases.List(); len(again) != 1 || again[0].From != first.From || !again[0].To.After(first.From) {
		t.Errorf("phases %v, want one from the first beginning to the last end", again)
	}
	timing.Begin(t.Context(), timing.Fetch)() // nobody collects it
	now := time.Now()
	tracer.Record(about, Span{Name: "grouper work", From: now.Add(-time.Second), To: now, Root: true, Within: phases.List()})
	tracer.Record(Step(about, 7), Span{Name: "trainer step", From: now, To: now, Root: true})
	tracer.Record(Parse([]byte(Traceparent(about))), Span{Name: "discriminator wait", From: now, To: now})
	must.Do(t, tracer.Close())
	spans := make(map[string]otlptest.Span)
	for _, s := range r.Spans() {
		spans[s.Name] = s
	}
	root := spans["grouper work"]
	ids := []string{pair(1).String(), pair(2).String()}
	switch c := about[0].Context; {
	case root.Trace != c.TraceID().String() || root.ID != c.SpanID().String() || root.Parent != "" || root.To-root.From != uint64(time.Second):
		t.Errorf("the first span is %+v, want %v for a second", root, c)
	case !slices.Equal(root.Links, ids):
		t.Errorf("links %v, want %v", root.Links, ids)
	case spans["fetch"].Parent != root.ID || spans["discriminator wait"].Parent != root.ID || spans["discriminator wait"].Trace != root.Trace:
		t.Errorf("spans %+v, want the phase and the next stage below the first", spans)
	case !slices.Equal(spans["trainer step"].Links, []string{root.Trace}) || spans["trainer step"].Trace == root.Trace:
		t.Errorf("the step is %+v, want a trace that links to its mini-batch", spans["trainer step"])
	}
}

// TestStagesAreServices: the stages of one process are services of their own, unless OTEL_SERVICE_NAME names them.
func TestStagesAreServices(t *testing.T) {
	for env, want := range map[string][]string{"": {"pairstream-encoder", "pairstream-indexer"}, "mine": {"mine", "mine"}} {
		t.Setenv("OTEL_SERVICE_NAME", env)
		tracer, r := open(t, 1)
		about := tracer.Of(&schemas.Pair{ID: pair(1)})
		tracer.Record(about, Span{Stage: "encoder", Name: "encoder work", Root: true})
		tracer.Record(about, Span{Stage: "indexer", Name: "indexer work"})
		must.Do(t, tracer.Close())
		var got []string
		for _, s := range r.Spans() {
			got = append(got, s.Service)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("with OTEL_SERVICE_NAME=%q the services are %q, want %q", env, got, want)
		}
	}
}

// TestBatchesCanBeFiltered: each span of a mini-batch, its phases and its step have its lane, group and epoch. A step
// has what its mini-batches have in common.
func TestBatchesCanBeFiltered(t *testing.T) {
	tracer, r := open(t, 1)
	of := func(seq int64) []Subject {
		return tracer.Of(&schemas.Batch{Group: schemas.GroupID{Lane: 3, Seq: seq}, Epoch: 2, Samples: []schemas.Sample{{ID: pair(byte(seq))}}})
	}
	now := time.Now()
	tracer.Record(of(7), Span{Name: "grouper work", Root: true, Lane: 3, Within: []timing.Phase{{Name: "compute", From: now, To: now}}})
	tracer.Record(Step(append(of(7), of(8)...), 5), Span{Name: "trainer step", Root: true, Lane: -1})
	must.Do(t, tracer.Close())
	want := map[string]map[string]string{"pairstream.lane": {"grouper work": "3", "compute": "3", "trainer step": "3"}, "pairstream.epoch": {"grouper work": "2", "compute": "2", "trainer step": "2"}, "pairstream.group": {"grouper work": "3/7", "compute": "3/7"}, "pairstream.step": {"trainer step": "5"}}
	spans := r.Spans()
	for _, s := range spans {
		for fact, values := range want {
			if s.Facts[fact] != values[s.Name] || s.Kind != "INTERNAL" {
				t.Errorf("%s of kind %s has %s %q, want %q", s.Name, s.Kind, fact, s.Facts[fact], values[s.Name])
			}
		}
	}
	if len(spans) != 3 {
		t.Errorf("%d spans, want 3", len(spans))
	}
}

// TestKeysOfAnyBytes: a key that is no text does not take the spans of its request with it.
func TestKeysOfAnyBytes(t *testing.T) {
	tracer, r := open(t, 1)
	m := Message{Topic: "pairs", Key: []byte{0xff, 0}, Offset: -1}
	tracer.Record(tracer.Of(&schemas.Pair{ID: pair(1)}), Span{Name: "publish", Root: true, Message: m.Sent()})
	must.Do(t, tracer.Close())
	spans := r.Spans()
	if len(spans) != 1 || spans[0].Facts["messaging.kafka.message.key"] != "ff00" {
		t.Fatalf("spans %+v, want one with the key in hexadecimal", spans)
	}
	if offset, known := spans[0].Facts["messaging.kafka.offset"]; known {
		t.Errorf("a message whose offset is unknown has %q", offset)
	}
}

// TestSpansNameTheirHost: spans of stages on several machines can be told apart.
func TestSpansNameTheirHost(t *testing.T) {
	want := must.Get(os.Hostname())(t)
	tracer, r := open(t, 1)
	tracer.Record(tracer.Of(&schemas.Pair{ID: pair(1)}), Span{Stage: "producer", Name: "publish", Root: true})
	must.Do(t, tracer.Close())
	if got := r.Spans(); len(got) != 1 || got[0].Host != want {
		t.Errorf("spans %+v, want one of host %q", got, want)
	}
}

func TestSubjects(t *testing.T) {
	all := &Tracer{bound: boundOf(1)}
	one, other := pair(1), pair(2)
	for name, c := range map[string]struct {
		tracer *Tracer
		rec    schemas.Record
		want   int
	}{
		"off":              {nil, &schemas.Pair{ID: one}, 0},
		"a pair":           {all, &schemas.Pair{ID: one}, 1},
		"an embedding":     {all, &schemas.Embedding{ID: one}, 1},
		"a refusal":        {all, &schemas.Refusal{ID: one}, 1},
		"a chunk":          {all, &schemas.NeighborChunk{IDs: append(one[:], other[:]...)}, 2},
		"a scored batch":   {all, &schemas.ScoredBatch{Batch: schemas.Batch{Samples: []schemas.Sample{{ID: one}}}}, 1},
		"no sampled pairs": {&Tracer{}, &schemas.Batch{Samples: []schemas.Sample{{ID: one}}}, 0},
		"a seal":           {all, &schemas.Seal{}, 0},
	} {
		if got := c.tracer.Of(c.rec); len(got) != c.want {
			t.Errorf("%s has %v", name, got)
		}
	}
	if About(WithAbout(t.Context(), nil)) != nil || len(About(WithAbout(t.Context(), []Subject{{}}))) != 1 || Step(nil, 1) != nil || Traceparent(make([]Subject, 2)) != "" {
		t.Error("subjects do not come through a context, or nothing has a step or a header")
	}
	id := pair(1)
	if got, want := Traceparent(all.Of(&schemas.Pair{ID: id})), "00-"+hex.EncodeToString(id[:])+"-"; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "-01") {
		t.Errorf("header %q, want %s...-01", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	good := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if got := Parse([]byte(good)); len(got) != 1 || got[0].Context.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("parsed %v", got)
	}
	for _, bad := range []string{"", "x", good + "0", strings.Replace(good, "0af7", "zzzz", 1), good[:53] + "00", strings.Repeat("0", 55)} {
		if got := Parse([]byte(bad)); got != nil {
			t.Errorf("%q is parsed as %v", bad, got)
		}
	}
}

// TestLostSpans: spans that nobody takes are told to the caller, the first at once and the others together, and to no
// other log.
func TestLostSpans(t *testing.T) {
	var stray bytes.Buffer
	log.SetOutput(&stray)
	defer log.SetOutput(os.Stderr)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	sendTo(t, away.URL)
	var told []int
	tracer := must.Get(New(t.Context(), Config{Endpoint: away.URL, Ratio: 1, Lost: func(spans int, err error) {
		if err == nil {
			t.Error("spans are lost without a reason")
		}
		told = append(told, spans)
	}}))(t)
	now := time.Now()
	for range 4 {
		tracer.Record(tracer.Of(&schemas.Pair{ID: pair(1)}), Span{Name: "publish", From: now, To: now, Root: true})
		must.Check(t, tracer.sink.ForceFlush(t.Context()))
	}
	must.Check(t, tracer.Close())
	if !slices.Equal(told, []int{1, 3}) || stray.Len() > 0 {
		t.Errorf("told of %v lost spans, want 1 and 3; the standard log says %q", told, stray.String())
	}
}

func TestOff(t *testing.T) {
	if tracer, err := New(t.Context(), Config{Ratio: 1}); tracer != nil || err != nil {
		t.Errorf("without an endpoint: %v, %v", tracer, err)
	}
	if _, err := New(t.Context(), Config{Endpoint: "http://collector:4318"}); err == nil {
		t.Error("a program without an exporter takes an endpoint")
	}
	var off *Tracer
	off.Record([]Subject{{}}, Span{})
	must.Check(t, off.Close())
}
