package tracing

import (
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// BenchmarkOf looks for sampled pairs in a mini-batch of 96, at the default rate.
func BenchmarkOf(b *testing.B) {
	batch := &schemas.Batch{Samples: make([]schemas.Sample, 96)}
	for i := range batch.Samples {
		batch.Samples[i].ID = pair(byte(i))
	}
	tracer := &Tracer{bound: boundOf(0.001)}
	for b.Loop() {
		tracer.Of(batch)
	}
}
