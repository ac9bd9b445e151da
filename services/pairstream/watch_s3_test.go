//go:build cgo && s3

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/s3test"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// TestS3Watch: two watchers follow a bucket by its events, and are killed at random moments while tars come. Every pair
// is published once.
func TestS3Watch(t *testing.T) { bucketWatchersKilled(t, "embedded", startBroker(t)) }

func bucketWatchersKilled(t *testing.T, kind, brokers string) {
	t.Setenv("KAFKA_BROKERS", brokers)
	t.Setenv("LANES", "3")
	for _, namespace := range []string{"notices", "watched"} { // a topic of the first takes what the server says
		t.Setenv("NAMESPACE", namespace)
		mustCommand(t, "topics", "create")
	}
	broker, _, _ := strings.Cut(brokers, ",") // the server takes one
	server := s3test.Start(t, "--event-kafka-url", broker, "--event-kafka-topic", "notices.control")
	bucket := server.Bucket(t, "crawl")
	w := pairOfWatchers{what: "a bucket", kind: kind, tars: soak.Choose(40, 200), images: 20}
	w.args = []string{"produce", "--watch", "--interval", "5m", "--events", "kafka:notices.control", server.URL("crawl/")}
	dir := writeTars(t, w.tars, w.images)
	w.killed(t, func(name string) {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = bucket.WriteAll(t.Context(), "new/"+name, raw, nil)
		}
		must.Do(t, err)
	})
}
