package stream

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/pairstream/pairstream/internal/base/timing"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/tracing"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// BenchmarkUnsampled measures all that traces add to a pair that they do not follow: to its publishing, and to the work
// of the stages on it. Images are loaded three times: by encoder, discriminator and trainer. Mini-batches have 96
// pairs.
func BenchmarkUnsampled(b *testing.B) {
	tracing.UseExporter(func(context.Context) (sdktrace.SpanExporter, error) { return tracetest.NewNoopExporter(), nil })
	tracer := must.Get(tracing.New(b.Context(), tracing.Config{Endpoint: "http://127.0.0.1:1"}))(b)
	const n = 96
	inline := make([]byte, 20_000)
	image := schemas.NewImageID(inline)
	id := schemas.NewPairID(image, "a red circle")
	value := must.Get(schemas.Marshal(&schemas.Pair{ID: id, ImageID: image, Inline: inline, Caption: "a red circle"}))(b)
	log := &Log{tracer: tracer}
	o := &output{pub: &Publisher{log: log, name: "encoder"}}
	embedding, batch := &schemas.Embedding{ID: id}, &schemas.Batch{Samples: make([]schemas.Sample, n)}
	for i := range batch.Samples {
		batch.Samples[i].ID = id
	}
	rec := Record{Schema: schemas.SchemaPair, Value: value, Headers: sequenced(schemas.Embeddings, 0, 1, Mark{}, schemas.SchemaPair, nil).Headers}
	stage := func(out schemas.Record, images int) {
		log.Waited("encoder", &rec)
		ctx := o.begin(context.Background())
		for range images {
			timing.Begin(ctx, timing.Fetch)()
			timing.Begin(ctx, timing.Decode)()
		}
		timing.Begin(ctx, timing.Compute)()
		o.trace(out, message{Message: kafka.Message{Topic: schemas.Embeddings}})
	}
	for i := 0; b.Loop(); i++ {
		o.pub.traceBytes(message{Message: kafka.Message{Value: value}}, schemas.SchemaPair)
		stage(embedding, 1) // encoder
		stage(embedding, 0) // indexer
		if i%n == 0 {
			stage(batch, 0) // grouper
			stage(batch, n) // discriminator
			stage(batch, n) // trainer
		}
	}
}
