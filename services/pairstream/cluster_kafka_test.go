//go:build cgo && kafka

package main

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/kafkatest"
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
		if err := cluster.Kill(i); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Restart(i); err != nil {
			t.Fatal(err)
		}
		if err := cluster.WaitInSync(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestProducerKilledOnKafka does the same as TestProducerKilled on Apache Kafka.
func TestProducerKilledOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{})
	t.Setenv("KAFKA_REPLICATION", "3")
	t.Setenv("KAFKA_MIN_INSYNC", "2")
	producerKilled(t, "cluster", strings.Join(cluster.Brokers(), ","))
}

// TestTortureOnKafka sends the hostile records to Apache Kafka.
func TestTortureOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{})
	t.Setenv("KAFKA_REPLICATION", "3")
	t.Setenv("KAFKA_MIN_INSYNC", "2")
	tortured(t, "cluster", strings.Join(cluster.Brokers(), ","), nil, torture.Records())
}
