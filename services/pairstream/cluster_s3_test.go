//go:build cgo && kafka && s3

package main

import (
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/kafkatest"
)

// TestBucketsKilledOnKafka kills watchers of a bucket and fetchers into a bucket on Apache Kafka. The bucket sends its
// events to the same cluster.
func TestBucketsKilledOnKafka(t *testing.T) {
	cluster := kafkatest.Start(t, kafkatest.Options{Settings: map[string]string{"group.min.session.timeout.ms": "1000"}})
	t.Setenv("KAFKA_REPLICATION", "3")
	t.Setenv("KAFKA_MIN_INSYNC", "2")
	brokers := strings.Join(cluster.Brokers(), ",")
	t.Run("watchers", func(t *testing.T) { bucketWatchersKilled(t, "cluster", brokers) })
	t.Run("fetchers", func(t *testing.T) { bucketFetchersKilled(t, "cluster", brokers) })
}
