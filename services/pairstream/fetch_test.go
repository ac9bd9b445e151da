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

	"github.com/pairstream/pairstream/internal/testing/figures"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/soak"
	"github.com/pairstream/pairstream/schemas"
)

// TestFetcherKilled kills a fetcher at random moments, and starts it again until it ends. Every row is published once,
// or has its one outcome.
func TestFetcherKilled(t *testing.T) {
	if apart(t) {
		return
	}
	fetcherKilled(t, "embedded", startBroker(t))
}

func fetcherKilled(t *testing.T, kind, brokers string) {
	dir := t.TempDir()
	t.Setenv("KAFKA_BROKERS", brokers)
	fetchersKilled(t, "a folder", kind, func(round int) string { return filepath.Join(dir, fmt.Sprintf("out-%d", round)) })
}

// fetchersKilled fetches a list into a place of its own in every round, until enough fetchers were killed.
func fetchersKilled(t *testing.T, what, kind string, out func(round int) string) {
	const rows, missing = 400, 40
	t.Setenv("LANES", "2")
	list, asked := pictureList(t, rows)
	r := rand.New(rand.NewPCG(soak.Seed(t, 3), 1))
	kills, rounds, wanted := 0, 0, soak.Choose(20, 100)
	for ; kills < wanted; rounds++ {
		t.Setenv("NAMESPACE", fmt.Sprintf("fetched-%d", rounds))
		mustCommand(t, "topics", "create")
		args := []string{"fetch", list, "--out", out(rounds), "--allow-loopback", "--host-rate", "100000", "--per-shard", "25", "--threads", "4"}
		for {
			p := start(t, "produce", "PRODUCE_ARGS="+strings.Join(args, "\n"))
			at := asked.Load() + r.Int64N(rows/10)
			if !p.killWhen(t, func() bool { return kills < wanted && asked.Load() >= at }) {
				break
			}
			kills++
		}
		lanes, repeats := published(t, openNamespace(t))
		captions := map[string]bool{}
		for _, value := range slices.Concat(lanes...) {
			record := must.Get(schemas.Unmarshal(schemas.SchemaPair, []byte(value)))(t)
			captions[record.(*schemas.Pair).Caption] = true
		}
		if len(captions) != rows-missing || len(slices.Concat(lanes...)) != rows-missing || repeats > rows/100 {
			t.Errorf("%d records of %d captions, and %d repeats, want %d", len(slices.Concat(lanes...)), len(captions), repeats, rows-missing)
		}
		if printed := mustCommand(t, args...); !strings.Contains(printed, "fetched 0 images of 0 rows") || !strings.Contains(printed, "16  tars were complete before") {
			t.Errorf("once more: %s", printed)
		}
	}
	t.Logf("%d kills in %d rounds", kills, rounds)
	figures.Record(t, figures.Figures{Scenario: "kill -9 of the fetcher into " + what, Broker: kind, Faults: kills, Records: rounds * (rows - missing)})
}

// pictureList writes a list of so many rows, and serves its images. Every tenth is missing. asked counts the requests.
func pictureList(t *testing.T, rows int) (list string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if asked.Add(1); err != nil || n%10 == 9 {
			http.NotFound(w, r)
			return
		}
		m := image.NewGray(image.Rect(0, 0, 8, 8))
		m.Pix[0], m.Pix[1] = byte(n), byte(n>>8)
		var encoded bytes.Buffer
		must.Check(t, png.Encode(&encoded, m))
		if _, err := w.Write(encoded.Bytes()); err != nil {
			t.Log(err) // the fetcher was killed
		}
	}))
	t.Cleanup(web.Close)
	text := "url,caption\n"
	for i := range rows {
		text += fmt.Sprintf("%s/%d,number %d\n", web.URL, i, i)
	}
	list = filepath.Join(t.TempDir(), "list.csv")
	must.Do(t, os.WriteFile(list, []byte(text), 0o600))
	return list, asked
}
