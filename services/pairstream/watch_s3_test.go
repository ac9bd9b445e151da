//go:build cgo && s3

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset/onlog"
	"github.com/pairstream/pairstream/internal/log/stream"
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

// TestS3Arrivals: of arrivals that come together one names an object that is gone, and another one no tar. All others are
// published, and every sender has its acknowledgement.
func TestS3Arrivals(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("LANES", "2")
	t.Setenv("NAMESPACE", "arrivals")
	mustCommand(t, "topics", "create")
	server := s3test.Start(t)
	upload(t, server.Bucket(t, "crawl"), "new/", writeTars(t, 3, 1))
	log := openNamespace(t)
	publisher := log.NewPublisher(stream.PublisherOptions{})
	var out bytes.Buffer
	w := &watcher{log: log, paths: []string{server.URL("crawl/new/")}, out: &out, ledger: &memory{Ledger: onlog.New(log, publisher)}}
	var all []arrival
	acks := 0
	for _, name := range []string{"00000.tar", "gone.tar", "notes.txt", "00001.tar", "00001.tar", "00002.tar"} {
		all = append(all, arrival{[]string{"s3://crawl/new/" + name}, func() { acks++ }})
	}
	for _, want := range []int64{300, 300} {
		must.Check(t, w.take(t.Context(), all))
		if n := inLog(t, log); n != want {
			t.Errorf("%d records, want %d", n, want)
		}
	}
	if acks != 2*len(all) {
		t.Errorf("%d acknowledgements of %d arrivals", acks, 2*len(all))
	}
	server.Stop(t)
	if err := w.take(t.Context(), all[:1]); err == nil || acks != 2*len(all) {
		t.Errorf("%v, %d acknowledgements, although the store is down", err, acks)
	}
	must.Check(t, errors.Join(w.stores.Close(), publisher.Close(t.Context())))
}
