// Package otlptest receives traces as an OpenTelemetry collector does, for tests.
package otlptest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that was received.
type Span struct {
	Name, Trace, ID, Parent string
	From, To                uint64   // Unix nanoseconds
	Links                   []string // traces
	Host, Service           string   // of the process
	Kind                    string   // such as PRODUCER
	Facts                   map[string]string
}

// Receiver keeps what it receives.
type Receiver struct {
	URL string

	mu    sync.Mutex
	spans []Span
}

// New starts a receiver, which ends with the test.
func New(t testing.TB) *Receiver {
	t.Helper()
	r := new(Receiver)
	server := httptest.NewServer(http.HandlerFunc(r.receive))
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range sent.GetResourceSpans() {
		process := facts(resource.GetResource().GetAttributes())
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				span := Span{
					Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					From: s.GetStartTimeUnixNano(), To: s.GetEndTimeUnixNano(), Host: process["host.name"], Service: process["service.name"],
					Kind: strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"), Facts: facts(s.GetAttributes()),
				}
				for _, l := range s.GetLinks() {
					span.Links = append(span.Links, hex.EncodeToString(l.GetTraceId()))
				}
				r.spans = append(r.spans, span)
			}
		}
	}
}

// facts returns attributes as text.
func facts(attributes []*common.KeyValue) map[string]string {
	m := make(map[string]string, len(attributes))
	for _, a := range attributes {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[a.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			m[a.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		default:
			m[a.GetKey()] = a.GetValue().String()
		}
	}
	return m
}

// Orphans returns the spans whose parents were not received.
func Orphans(spans []Span) (lost []Span) {
	has := make(map[string]bool, len(spans))
	for _, s := range spans {
		has[s.Trace+s.ID] = true
	}
	for _, s := range spans {
		if s.Parent != "" && !has[s.Trace+s.Parent] {
			lost = append(lost, s)
		}
	}
	return lost
}

// Spans returns what was received.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}
