package indexer_test

import (
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/neighbors/segment"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// BenchmarkAsking closes the last of five groups, alone and with the four before it asked. It reports the processor
// time of a pair, and the bytes that it takes in a segment and in its chunks.
func BenchmarkAsking(b *testing.B) {
	const n, others = 50_000, 4
	o := indexer.DefaultOptions()
	o.GroupSize, o.Segments, o.Clusters = n, true, 250
	c := newCrawl(2)
	closing := func(seq int64, o indexer.Options, pairs []*schemas.Embedding, asked ...*segment.Segment) (*indexer.Group, float64) {
		builder := must.Get(indexer.NewBuilder(schemas.GroupID{Seq: seq}, o, cpu.Engine{}, nouns{}, nil))(b)
		for i, e := range pairs {
			must.Get(builder.Add(e, int64(i)))(b)
		}
		before := machine.ProcessorTime()
		g := must.Get(builder.Close(b.Context(), indexer.ByCount, asked...))(b)
		return g, (machine.ProcessorTime() - before).Seconds()
	}
	draw := func() []*schemas.Embedding {
		pairs := make([]*schemas.Embedding, n)
		for i := range pairs {
			pairs[i] = c.next()
			pairs[i].Image = schemas.ImageRef{URI: fmt.Sprintf("s3://crawl/2026/%05d.tar", c.drawn/10_000), Offset: int64(c.drawn%10_000) * 44_032, Size: 43_000}
		}
		return pairs
	}
	var asked []*segment.Segment
	for seq := range others {
		g, _ := closing(int64(seq), o, draw())
		asked = append(asked, g.Segment)
		b.ReportMetric(float64(len(g.Segment.Bytes()))/n, "B/pair-segment")
	}
	last := draw()
	for _, scope := range []string{"", schemas.ScopeLane} {
		b.Run("scope="+scope, func(b *testing.B) {
			o := o
			if o.Scope = scope; scope != "" {
				o.Asked = others
			}
			var seconds float64
			for b.Loop() {
				g, took := closing(others, o, last, asked...)
				seconds += took
				size := 0
				for _, chunk := range g.Chunks {
					raw := must.Get(schemas.Marshal(chunk))(b)
					size += len(raw)
				}
				b.ReportMetric(float64(size)/n, "B/pair-neighbors")
				must.Do(b, g.Segment.Close())
			}
			b.ReportMetric(1e6*seconds/float64(b.N)/n, "cpu-µs/pair")
		})
	}
	for _, s := range asked {
		must.Do(b, s.Close())
	}
}
