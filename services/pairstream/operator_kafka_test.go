//go:build cgo && kafka

package main

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/kafkatest"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// TestOperatorOnKafka plays the sequences of TestOperator on Apache Kafka. They share a cluster, and each has
// namespaces of its own. Its topics are deleted at its end: brokers have no room for those of an hour.
func TestOperatorOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{Settings: map[string]string{"group.min.session.timeout.ms": "1000"}})
	t.Setenv("KAFKA_REPLICATION", "3")
	t.Setenv("KAFKA_MIN_INSYNC", "2")
	brokers := strings.Join(cluster.Brokers(), ",")
	deleteTopics := func() error { return kafkatest.DeleteTopics(t.Context(), cluster.Brokers()) }
	playOperators(t, "cluster", soak.Choose(8, 1_000_000), func() (string, func() error, error) {
		return brokers, deleteTopics, nil
	})
}
