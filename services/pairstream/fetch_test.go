//go:build cgo

package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// TestFetcherKilled kills a fetcher at random moments, and starts it again until it ends. Every row is published once,
// or has its one outcome.
func TestFetcherKilled(t *testing.T) {
	const rows, missing = 400, 40
	var asked atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if asked.Add(1); err != nil || n%10 == 9 {
			http.NotFound(w, r)
			return
		}
		m := image.NewGray(image.Rect(0, 0, 8, 8))
		m.Pix[0], m.Pix[1] = byte(n), byte(n>>8)
		var encoded bytes.Buffer
		if err := png.Encode(&encoded, m); err != nil {
			t.Error(err)
		}
		if _, err := w.Write(encoded.Bytes()); err != nil {
			t.Log(err) // the fetcher was killed
		}
	}))
	defer web.Close()
	dir := t.TempDir()
	list := filepath.Join(dir, "list.csv")
	text := "url,caption\n"
	for i := range rows {
		text += fmt.Sprintf("%s/%d,number %d\n", web.URL, i, i)
	}
	if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("LANES", "2")
	r := rand.New(rand.NewPCG(soak.Seed(t, 3), 1))
	kills, runs := 0, soak.Choose(1, 5)
	for round := range runs {
		t.Setenv("NAMESPACE", fmt.Sprintf("fetched-%d", round))
		mustCommand(t, "topics", "create")
		out := filepath.Join(dir, fmt.Sprintf("out-%d", round))
		args := []string{"fetch", list, "--out", out, "--allow-loopback", "--host-rate", "100000", "--per-shard", "25", "--threads", "4"}
		for done := false; !done; {
			p := start(t, "produce", "PRODUCE_ARGS="+strings.Join(args, "\n"))
			for at := asked.Load() + r.Int64N(rows/3); kills >= 20*(round+1) || asked.Load() < at; time.Sleep(time.Millisecond) {
				select {
				case <-p.done:
					done = true
				default:
				}
				if done {
					break
				}
			}
			if done {
				if p.err != nil {
					t.Fatalf("after %d kills: %v\n%s", kills, p.err, p.log)
				}
				break
			}
			p.kill(t)
			kills++
		}
		lanes, repeats := published(t, openNamespace(t))
		captions := map[string]bool{}
		for _, value := range slices.Concat(lanes...) {
			record, err := schemas.Unmarshal(schemas.SchemaPair, []byte(value))
			if err != nil {
				t.Fatal(err)
			}
			captions[record.(*schemas.Pair).Caption] = true
		}
		if len(captions) != rows-missing || len(slices.Concat(lanes...)) != rows-missing || repeats > rows/100 {
			t.Errorf("%d records of %d captions, and %d repeats, want %d", len(slices.Concat(lanes...)), len(captions), repeats, rows-missing)
		}
		if printed := mustCommand(t, args...); !strings.Contains(printed, "fetched 0 images of 0 rows") || !strings.Contains(printed, "16  tars were complete before") {
			t.Errorf("once more: %s", printed)
		}
	}
	t.Logf("%d kills in %d runs", kills, runs)
	figures.Record(t, figures.Figures{Scenario: "kill -9 of the fetcher", Broker: "embedded", Faults: kills, Records: runs * (rows - missing)})
}
