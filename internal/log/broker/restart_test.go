package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pairstream/pairstream/internal/base/machine"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// BenchmarkRestart starts the broker on a log that a killed one has left: it has no snapshots, so all of it is read.
func BenchmarkRestart(b *testing.B) {
	const topics, batches, records, bytes = 4, 256, 128, 1 << 10
	dir := b.TempDir()
	fill(b, dir, topics, batches, records, bytes)
	b.SetBytes(topics * batches * records * bytes)
	var took time.Duration
	for b.Loop() {
		before := machine.ProcessorTime()
		broker := must.Get(Start(Options{DataDir: dir}))(b)
		b.StopTimer()
		took += machine.ProcessorTime() - before
		must.Do(b, broker.Close())
		removeSnapshots(b, dir)
		b.StartTimer()
	}
	b.ReportMetric(float64(took.Milliseconds())/float64(b.N), "cpu-ms/op")
}

func fill(b *testing.B, dir string, topics, batches, records, bytes int) {
	b.Helper()
	broker := must.Get(Start(Options{DataDir: dir}))(b)
	c := must.Get(kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.ProducerBatchMaxBytes(16<<20), kgo.ProducerBatchCompression(kgo.NoCompression())))(b)
	defer func() {
		c.Close()
		must.Do(b, broker.Close())
		removeSnapshots(b, dir)
	}()
	value := make([]byte, bytes)
	for t := range topics {
		topic := fmt.Sprint("topic-", t)
		must.Do(b, broker.Cluster().CreateTopic(topic, 1, nil))
		for range batches {
			batch := make([]*kgo.Record, records)
			for i := range batch {
				batch[i] = &kgo.Record{Topic: topic, Value: value}
			}
			must.Do(b, c.ProduceSync(b.Context(), batch...).FirstErr())
		}
	}
}

func removeSnapshots(b *testing.B, dir string) {
	b.Helper()
	snapshots := must.Get(filepath.Glob(filepath.Join(dir, "log", "partitions", "*", "snapshot.json")))(b)
	for _, path := range snapshots {
		must.Do(b, os.Remove(path))
	}
}
