package stream

import (
	"fmt"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// BenchmarkPlumbing measures what the log itself costs. It sends records of 1 KB through four stages that only pass
// them on, over the embedded broker with its data directory. It reports pairs per second, and processor time for each
// pair.
func BenchmarkPlumbing(b *testing.B) {
	const lanes = 4
	broker := must.Get(broker.Start(broker.Options{DataDir: b.TempDir()}))(b)
	defer func() { _ = broker.Close() }()
	cfg := DefaultConfig()
	cfg.Brokers, cfg.Lanes = []string{broker.Addr()}, lanes
	l := must.Get(Connect(b.Context(), cfg, Options{}))(b)
	defer l.Close()
	must.Do(b, l.EnsureTopics(b.Context()))
	chain := []schemas.Topic{schemas.Pairs, schemas.Embeddings, schemas.Groups, schemas.Batches, schemas.Scored}
	counters := make([]Counters, len(chain)-1)
	var runs []*stageRun
	for i := range counters {
		in, out := chain[i], chain[i+1]
		runs = append(runs, start(l, StageSpec{
			Name: fmt.Sprint("stage-", i), Inputs: []schemas.Topic{in}, Outputs: []schemas.Topic{out}, Counters: &counters[i],
			New: func(int, []byte) (Stage, error) { return copier{in, out}, nil },
		}))
	}
	value := make([]byte, 1000)
	before := machine.ProcessorTime()
	b.ResetTimer()
	p := l.NewPublisher(PublisherOptions{})
	for i := range b.N {
		must.Do(b, p.PublishBytes(b.Context(), schemas.Pairs, i%lanes, schemas.SchemaPair, value))
	}
	must.Do(b, p.Close(b.Context()))
	for counters[len(counters)-1].Out.Load() < int64(b.N) {
		time.Sleep(100 * time.Microsecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64((machine.ProcessorTime()-before).Microseconds())/float64(b.N), "cpu-µs/pair")
	for _, r := range runs {
		r.cancel()
		must.Check(b, <-r.done)
	}
}
