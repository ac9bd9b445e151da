//go:build cgo

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
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
)

// TestWatchersKilled: two watchers follow a folder, and are killed at random moments while tars come. Every pair is
// published once.
func TestWatchersKilled(t *testing.T) {
	if apart(t) {
		return
	}
	watchersKilled(t, "embedded", startBroker(t))
}

func watchersKilled(t *testing.T, kind, brokers string) {
	t.Setenv("KAFKA_BROKERS", brokers)
	t.Setenv("LANES", "3")
	t.Setenv("NAMESPACE", "watched-folder")
	mustCommand(t, "topics", "create")
	w := pairOfWatchers{what: "a folder", kind: kind, tars: soak.Choose(40, 200), images: 10}
	from, dir := writeTars(t, w.tars, w.images), t.TempDir()
	w.args = []string{"produce", "--watch", "--interval", "100ms", dir}
	w.killed(t, func(name string) {
		must.Do(t, os.Rename(filepath.Join(from, name), filepath.Join(dir, name)))
	})
}

// pairOfWatchers is a test of two watchers of one place.
type pairOfWatchers struct {
	what, kind   string
	args         []string // of both
	tars, images int      // images of each tar, with 100 captions each
}

// killed puts one tar after another. While each of the first half is published, it kills one
// watcher or both.
func (w *pairOfWatchers) killed(t *testing.T, put func(name string)) {
	t.Setenv("STREAM_SESSION_TIMEOUT", "1s")
	log := openNamespace(t)
	r := rand.New(rand.NewPCG(soak.Seed(t, 9), 1))
	begin := func() *process { return start(t, "produce", "PRODUCE_ARGS="+strings.Join(w.args, "\n")) }
	watchers := []*process{begin(), begin()}
	perTar, kills := int64(100*w.images), 0
	var calm []time.Duration
	for i := range int64(w.tars) {
		began := time.Now()
		put(fmt.Sprintf("%05d.tar", i))
		if i < int64(w.tars)/2 {
			at := i*perTar + r.Int64N(perTar+1)
			waitFor(t, watchers, func() bool { return inLog(t, log) >= at })
			for n, victim := 0, r.IntN(3); n < 2; n++ {
				if victim == n || victim == 2 {
					watchers[n].kill(t)
					watchers[n] = begin()
					kills++
				}
			}
		}
		waitFor(t, watchers, func() bool { return inLog(t, log) >= (i+1)*perTar })
		if i > int64(w.tars)/2 { // the one before has waited for the last takeover
			calm = append(calm, time.Since(began))
		}
	}
	lanes, repeats := published(t, log)
	if n := len(slices.Concat(lanes...)); int64(n) != int64(w.tars)*perTar || repeats != 0 {
		t.Errorf("%d records and %d repeats, want %d records", n, repeats, int64(w.tars)*perTar)
	}
	for _, p := range watchers {
		p.kill(t) // one may have just begun, and know no signals yet
	}
	slices.Sort(calm)
	figures.Record(t, figures.Figures{
		Scenario: "kill -9 of two watchers of " + w.what, Broker: w.kind, Faults: kills, Records: w.tars * int(perTar),
		Note: fmt.Sprintf("without a kill, a tar is published after %s (median; the slowest after %s)", round(calm[len(calm)/2]), round(calm[len(calm)-1])),
	})
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

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
				if err := w.Kill(); err != nil {
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
