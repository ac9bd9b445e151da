//go:build cgo && kafka

package main

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/torture"
)

// TestEveryStageKilledOnKafka does the same as TestEveryStageKilled on Apache Kafka. After every round of kills it
// kills another broker, which comes back.
func TestEveryStageKilledOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{Settings: map[string]string{"group.min.session.timeout.ms": "1000"}})
	t.Setenv("KAFKA_REPLICATION", "3")
	t.Setenv("KAFKA_MIN_INSYNC", "2")
	next := 0
	everyStageKilled(t, "cluster", strings.Join(cluster.Brokers(), ","), func() {
		i := next % cluster.Size()
		next++
		must.Do(t, cluster.Kill(i))
		must.Do(t, cluster.Restart(i))
		must.Do(t, cluster.WaitInSync(t.Context()))
	})
}

// TestCrawlKilledOnKafka kills producers, watchers, fetchers, encoders that filter and front doors on Apache Kafka.
func TestCrawlKilledOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{Settings: map[string]string{"group.min.session.timeout.ms": "1000"}})
	t.Setenv("KAFKA_REPLICATION", "3")
	t.Setenv("KAFKA_MIN_INSYNC", "2")
	brokers := strings.Join(cluster.Brokers(), ",")
	t.Run("producers", func(t *testing.T) { producerKilled(t, "cluster", brokers) })
	t.Run("watchers", func(t *testing.T) { watchersKilled(t, "cluster", brokers) })
	t.Run("fetchers", func(t *testing.T) { fetcherKilled(t, "cluster", brokers) })
	t.Run("filters", func(t *testing.T) { filterKilled(t, "cluster", brokers) })
	t.Run("front doors", func(t *testing.T) { ingestKilled(t, "cluster", brokers) })
}

// TestTortureOnKafka sends the hostile records to Apache Kafka.
func TestTortureOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{})
	t.Setenv("KAFKA_REPLICATION", "3")
	t.Setenv("KAFKA_MIN_INSYNC", "2")
	tortured(t, "cluster", strings.Join(cluster.Brokers(), ","), nil, torture.Records())
}
