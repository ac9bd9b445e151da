package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/operate/capacity"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestMain lets the test be the grouper that it kills, and a rank.
func TestMain(m *testing.M) {
	if child := map[string]func(context.Context, string, io.Writer) error{childCommand: serve, rankCommand: beRank}; len(os.Args) == 3 && child[os.Args[1]] != nil {
		if err := child[os.Args[1]](context.Background(), os.Args[2], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestExchange counts the bytes on the lines of ranks, each in a network namespace. Where there are none, it says so.
func TestExchange(t *testing.T) {
	t.Parallel()
	if err := newNetwork(1).try(t.Context()); err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	for _, tt := range []struct {
		world int
		trip  time.Duration
	}{{1, 0}, {2, 0}, {4, 0}, {2, 50 * time.Millisecond}} {
		world := tt.world
		e := must.Get(exchangeOf(t.Context(), world, tt.trip))(t)
		if e.Seconds < 2*tt.trip.Seconds() {
			t.Errorf("%d ranks: a step takes %.3f s, want two round trips of %s", world, e.Seconds, tt.trip)
		}
		for what, n := range map[string]float64{"sent": e.Sent, "received": e.Received} { // headers of TCP and acknowledgements come on top
			if world > 1 && n < e.Counted || n > 1.1*e.Counted {
				t.Errorf("%d ranks: %.0f bytes %s, %.0f counted", world, n, what, e.Counted)
			}
		}
	}
}

// A gradient that leaves run by run takes the bytes that a whole one takes.
func TestRunsTakeNoMoreBytes(t *testing.T) {
	if err := newNetwork(1).try(t.Context()); err != nil {
		t.Skipf("no network namespaces here: %v", err)
	}
	reports := must.Get(inNetwork(t.Context(), 2, 0, pass{World: 2, Backward: 0.1, Beside: true}))(t)
	counted := predicted(2, 0).Counted
	for rank, r := range reports {
		if r.Sent < counted || r.Sent > 1.12*counted || r.Received < counted || r.Received > 1.12*counted {
			t.Errorf("rank %d sends %.0f bytes and receives %.0f, %.0f counted", rank, r.Sent, r.Received, counted)
		}
	}
}

// A pass without time hides nothing. One that is longer than the exchange hides all of it but its last run.
func TestPredictedOverlap(t *testing.T) {
	exchange := predicted(4, 0).Predicted
	for name, c := range map[string]struct {
		p    pass
		want float64
	}{
		"behind":       {pass{4, 2, false}, 2 + exchange},
		"no pass":      {pass{4, 0, true}, exchange},
		"a short pass": {pass{4, exchange / 2, true}, exchange/2/passRuns + exchange},
		"a long pass":  {pass{4, 2 * exchange, true}, 2*exchange + exchange/passRuns},
	} {
		if got := c.p.predicted(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g s, want %g", name, got, c.want)
		}
	}
}

// TestSimulations plays everything small, and writes the tables of what came out.
func TestSimulations(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), new(bytes.Buffer)
	file, page := filepath.Join(dir, "results.json"), filepath.Join(dir, "page.md")
	args := []string{"--results", file, "--only", "idle,kills,reads,bytes", "--lanes", "2", "--pairs", "400", "--epochs", "6", "--epoch", "600ms"}
	must.Do(t, run(t.Context(), args, out))
	results := must.Get(load(file))(t)
	for _, r := range read[Idle](t, results["idle"]) {
		if r.Ahead >= r.AtEnd || r.AtEnd >= 1 {
			t.Errorf("%d GPUs wait %g of the time when queues are planned as they fill, %g when not", r.GPUs, r.Ahead, r.AtEnd)
		}
	}
	killed := read[Kill](t, results["kills"])
	if len(killed) != 3 || killed[2].Records != killed[1].Records || killed[0].Records < 400 || killed[2].Deleted == 0 {
		t.Errorf("kills: %+v", killed)
	}
	for _, b := range read[Bytes](t, results["bytes"]) {
		if b.Without <= 0 || b.Positives < b.Without-1 {
			t.Errorf("bytes: %+v", b)
		}
	}
	results["plan"] = Result{Result: []byte(`[{"lanes": 2, "what": "storage", "predicted": 110, "measured": 100}]`)}
	results["ranks"] = Result{Result: []byte(`[{"ranks": 2, "counted": 4194304}]`)}
	results["overlap"] = Result{Result: []byte(`[{"ranks": 4, "backward": 1, "beside": true, "predicted": 2}]`)}
	must.Do(t, store(file, results))
	text := "before\n"
	for _, s := range simulations {
		text += fmt.Sprintf("<!-- simulated %s: begin -->\nold\n<!-- simulated %s: end -->\n", s.name, s.name)
	}
	must.Do(t, os.WriteFile(page, []byte(text+"after\n"), 0o600))
	must.Do(t, run(t.Context(), []string{"--results", file, "--write", page}, out))
	raw, err := os.ReadFile(page)
	if got := string(raw); err != nil || strings.Contains(got, "old") || !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after\n") || !strings.Contains(got, "| 256 |") || !strings.Contains(got, "| +10.0 % |") {
		t.Errorf("%v\n%s", err, got)
	}
}

func read[T any](t *testing.T, r Result) (all []T) {
	t.Helper()
	must.Do(t, json.Unmarshal(r.Result, &all))
	return all
}

// TestPlanForeseesTheLog has the bytes that `pairstream plan` predicts beside those of the real log, at three sizes.
func TestPlanForeseesTheLog(t *testing.T) {
	t.Parallel()
	for _, size := range []crawl{
		{Lanes: 1, Pairs: 480, Dim: 64, Positives: true}, {Lanes: 1, Pairs: 960, Dim: 128, Positives: true}, {Lanes: 1, Pairs: 1920, Dim: 512, Positives: true},
	} {
		f := fleet{Crawl: size, Epochs: 2, Batch: 96, Space: 480, Queue: 480, Epoch: 10 * time.Millisecond}
		found := must.Get(f.logBytes(t.Context()))(t)
		total, foreseen := 0.0, 0.0
		for _, topic := range []schemas.Topic{schemas.Embeddings, schemas.Batches, schemas.Scored, schemas.Features} {
			predicted := capacity.Bytes(topic, float64(size.Dim))
			if off := predicted/found[topic] - 1; off < -0.15 || off > 0.15 {
				t.Errorf("%d pairs, d = %d: %s: %.0f bytes predicted, %.0f in the log", size.Pairs, size.Dim, topic, predicted, found[topic])
			}
			total, foreseen = total+found[topic], foreseen+predicted
		}
		t.Logf("%d pairs, d = %d: %.0f bytes predicted, %.0f in the log, %+.1f %%", size.Pairs, size.Dim, foreseen, total, 100*(foreseen/total-1))
	}
}

// TestPlanForeseesARun predicts what a small fleet leaves in its log, and the most batches that wait for its trainer.
func TestPlanForeseesARun(t *testing.T) {
	t.Parallel()
	const lanes, pairs, dim, epochs = 2, 960, 32, 2
	got := must.Get(played(t.Context(), lanes, pairs, dim, epochs))(t)
	bytes := lanes * pairs * (capacity.Bytes(schemas.Embeddings, dim) + epochs*capacity.EveryEpoch(dim))
	if off := bytes/got.bytes - 1; off < -0.15 || off > 0.15 {
		t.Errorf("%g bytes predicted, %g measured", bytes, got.bytes)
	}
	if most := 1.15 * lanes * pairs / plannedBatch; got.lag > most || got.lag < 1 {
		t.Errorf("%g batches wait, want at most %g", got.lag, most)
	}
	if got.cpu <= 0 {
		t.Errorf("%+v", got)
	}
}

// TestReads has more readers wait less, and none when reads take no longer than steps.
func TestReads(t *testing.T) {
	few, _ := Reads{Workers: 2, Batches: 1}.play()
	many, rate := Reads{Workers: 2000, Batches: 16}.play()
	if few < 0.9 || many > 0.05 || rate < 0.95*readPairs {
		t.Errorf("two readers wait %g of the time, 2,000 wait %g", few, many)
	}
}

func TestWrongSimulation(t *testing.T) {
	if err := run(t.Context(), []string{"--only", "idle,naps"}, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "naps") {
		t.Errorf("%v, want an error that names the simulation", err)
	}
}
