// Package otlptest receives traces as an OpenTelemetry collector does, for tests.
package otlptest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that was received.
type Span struct {
	Name, Trace, ID, Parent string
	From, To                uint64   // Unix nanoseconds
	Links                   []string // traces
	Host                    string   // of the process
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
		host := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "host.name" {
				host = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				span := Span{
					Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					From: s.GetStartTimeUnixNano(), To: s.GetEndTimeUnixNano(), Host: host,
				}
				for _, l := range s.GetLinks() {
					span.Links = append(span.Links, hex.EncodeToString(l.GetTraceId()))
				}
				r.spans = append(r.spans, span)
			}
		}
	}
}

// Spans returns what was received.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}
