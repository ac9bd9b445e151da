// Package otlp sends spans to a collector, by OpenTelemetry's protocol over HTTP. It is apart from package tracing
// because its libraries are large, and only programs need to carry them.
package otlp

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/pairstream/pairstream/internal/log/tracing"
)

// Use lets the program send its traces.
func Use() {
	tracing.UseExporter(func(ctx context.Context) (sdktrace.SpanExporter, error) { return otlptracehttp.New(ctx) })
}
