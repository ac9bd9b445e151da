//go:build cgo && s3

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/s3test"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// TestS3Watch: two watchers follow a bucket by its events, and are killed at random moments while tars come. Every pair
// is published once.
func TestS3Watch(t *testing.T) {
	const perTar = 20 * 100
	broker := startBroker(t)
	t.Setenv("KAFKA_BROKERS", broker)
	t.Setenv("LANES", "3")
	t.Setenv("STREAM_SESSION_TIMEOUT", "2s")
	for _, namespace := range []string{"notices", "watched"} { // a topic of the first takes what the server says
		t.Setenv("NAMESPACE", namespace)
		mustCommand(t, "topics", "create")
	}
	server := s3test.Start(t, "--event-kafka-url", broker, "--event-kafka-topic", "notices.control")
	bucket := server.Bucket(t, "crawl")
	tars := soak.Choose(12, 60)
	dir := writeTars(t, tars, 20)
	args := "PRODUCE_ARGS=" + strings.Join([]string{"produce", "--watch", "--interval", "5m", "--events", "kafka:notices.control", server.URL("crawl/")}, "\n")
	log := openNamespace(t)
	r := rand.New(rand.NewPCG(soak.Seed(t, 9), 1))
	watchers := []*process{start(t, "produce", args), start(t, "produce", args)}
	kills := 0
	var slowest time.Duration
	for i := range tars {
		name := fmt.Sprintf("%05d.tar", i)
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		killing := i > 0 && i%2 == 0
		began := time.Now()
		if err := bucket.WriteAll(t.Context(), "new/"+name, raw, nil); err != nil {
			t.Fatal(err)
		}
		if killing {
			at := inLog(t, log) + r.Int64N(perTar)
			waitFor(t, watchers, func() bool { return inLog(t, log) >= at })
			n := r.IntN(2)
			watchers[n].kill(t)
			watchers[n] = start(t, "produce", args)
			kills++
		}
		waitFor(t, watchers, func() bool { return inLog(t, log) >= int64(i+1)*perTar })
		if took := time.Since(began); !killing && i > 1 && took > slowest {
			slowest = took
		}
	}
	lanes, repeats := published(t, log)
	if n := len(slices.Concat(lanes...)); n != tars*perTar || repeats != 0 {
		t.Errorf("%d records and %d repeats, want %d records", n, repeats, tars*perTar)
	}
	for _, w := range watchers {
		w.kill(t) // one may have just begun, and know no signals yet
	}
	t.Logf("%d kills among %d tars; the slowest tar without a kill took %s from its upload", kills, tars, slowest)
	figures.Record(t, figures.Figures{Scenario: "kill -9 of two watchers of a bucket", Broker: "embedded", Faults: kills, Records: tars * perTar})
}

// waitFor waits for the log, and fails when a watcher ends by itself.
func waitFor(t *testing.T, watchers []*process, ready func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !ready() {
		for _, w := range watchers {
			select {
			case <-w.done:
				t.Fatalf("a watcher has ended: %v\n%s", w.err, w.log)
			default:
			}
		}
		if ctx.Err() != nil {
			for _, w := range watchers {
				if err := w.cmd.Process.Kill(); err != nil {
					t.Log(err)
				}
				<-w.done
				t.Logf("watcher: %s", w.log)
			}
			t.Fatal("the pairs do not come")
		}
		time.Sleep(5 * time.Millisecond)
	}
}
