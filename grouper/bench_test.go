package grouper

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func BenchmarkWalk(b *testing.B) {
	for _, size := range []struct {
		n, centres int
		spread     float64
	}{{960, 1, 100}, {4800, 1, 100}, {4800, 48, 0.5}, {48000, 1, 100}, {48000, 480, 0.5}} {
		b.Run(fmt.Sprintf("M=%d,centres=%d", size.n, size.centres), func(b *testing.B) {
			v, t := features(size.n, 256, size.centres, size.spread, 1), features(size.n, 256, size.centres, size.spread, 2)
			b.ReportAllocs()
			for b.Loop() {
				must.Get(Walk(context.Background(), v, t, 0, WalkRule{Workers: runtime.GOMAXPROCS(0)}))(b)
			}
		})
	}
}

// BenchmarkEpoch plans and makes the mini-batches of an epoch after the first, of 19,200 pairs whose vectors have 256 values.
func BenchmarkEpoch(b *testing.B) {
	const n = 19_200
	for _, strategy := range []Strategy{StrategyRandom, StrategyGNS, StrategyGRIT, StrategyJEST, StrategyB3} {
		b.Run(string(strategy), func(b *testing.B) {
			o := Defaults()
			o.Strategy, o.Epochs, o.Workers, o.Features = strategy, 2, runtime.GOMAXPROCS(0), SourceEncoder
			lane := Lane{options: o, lane: testLane, groupState: groupState{members: benchMembers(n)}}
			lane.features, lane.epoch = lane.members.vectors, 1
			lane.join()
			b.ReportAllocs()
			for b.Loop() {
				must.Do(b, lane.emitEpoch(context.Background(), func(schemas.Record) error { return nil }))
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}

// benchMembers returns n pairs, five captions to an image.
func benchMembers(n int) *members {
	m := newMembers(&schemas.Group{Count: int32(n), Dim: 256, K1: 5, MaxSimilarity: 1, Nouns: []string{"dog"}})
	m.reserve(true)
	v, t := features(n, 256, n/100, 0.5, 1), features(n, 256, n/100, 0.5, 2)
	for i := range n {
		m.ids = append(m.ids, schemas.PairID{})
		m.cluster = append(m.cluster, int32(i%200))
		m.se = append(m.se, int32(i), -1, -1, -1, -1)
		m.objEnd = append(m.objEnd, 0)
		m.imageIDs = append(m.imageIDs, schemas.ImageID{})
		m.image = append(m.image, int32(i/5))
		m.refs.Add(schemas.ImageRef{URI: "file:///shard.tar", Size: 1})
		m.captions = append(m.captions, "a dog runs over the grass")
		m.similarity = append(m.similarity, 0.5)
		m.vectors.write(int32(i), schemas.NewFloat16s(v.Row(i)), schemas.NewFloat16s(t.Row(i)))
	}
	return m
}
