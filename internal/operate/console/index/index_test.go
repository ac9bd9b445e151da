package index_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/log/broker"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/runlog"
	"github.com/pairstream/pairstream/schemas"
)

func newLog(t *testing.T) *stream.Log {
	t.Helper()
	broker := must.Get(broker.Start(broker.Options{}))(t)
	t.Cleanup(func() { must.Check(t, broker.Close()) })
	cfg := stream.DefaultConfig()
	cfg.Brokers, cfg.Lanes = []string{broker.Addr()}, 1
	log, err := stream.Connect(t.Context(), cfg, stream.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = log.EnsureTopics(t.Context())
	}
	must.Do(t, err)
	t.Cleanup(log.Close)
	return log
}

func write(t *testing.T, log *stream.Log, o runlog.Options) *runlog.Run {
	t.Helper()
	o.Dir = t.TempDir()
	run := must.Get(runlog.Write(t.Context(), log, o))(t)
	return run
}

func open(t *testing.T, log *stream.Log, dir string, pairs int64) *index.Index {
	t.Helper()
	x := must.Get(index.Open(t.Context(), log, index.Options{Dir: dir, Pairs: pairs, High: 0.8, Low: 0.5}))(t)
	t.Cleanup(x.Close)
	return x
}

func totals(t *testing.T, x *index.Index) index.Totals {
	t.Helper()
	n := must.Get(x.Totals(t.Context()))(t)
	n.Bytes = 0
	return n
}

// TestGoesOnAfterAKill fills an index in many short pieces, each cut off somewhere. It must come out as one that was
// filled at once.
func TestGoesOnAfterAKill(t *testing.T) {
	log := newLog(t)
	run := write(t, log, runlog.Options{Pairs: 2400, Batch: 24, Epochs: 2, DeadLetters: 20})
	whole := open(t, log, t.TempDir(), 1_000_000)
	must.Do(t, whole.Fill(t.Context()))
	dir := t.TempDir()
	cuts := 0
	for limit := time.Millisecond; ; limit += limit/8 + time.Millisecond {
		x := open(t, log, dir, 1_000_000)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		err := x.Fill(ctx)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			t.Fatal(err)
		}
		cuts++
		x.Close()
	}
	cut := open(t, log, dir, 1_000_000)
	if got, want := totals(t, cut), totals(t, whole); got != want {
		t.Errorf("after %d cuts the index holds %+v, want %+v", cuts, got, want)
	}
	if cuts == 0 {
		t.Error("nothing was cut off")
	}
	for i := 0; i < len(run.Pairs); i += 97 {
		for name, x := range map[string]*index.Index{"whole": whole, "cut": cut} {
			p, err := x.Pair(t.Context(), run.Pairs[i].ID)
			if err != nil || p.Position != int32(i) || p.Caption != run.Pairs[i].Caption || p.Image != run.Pairs[i].Image {
				t.Fatalf("%s: pair %d is %+v (%v)", name, i, p, err)
			}
			batches, err := x.BatchesOf(t.Context(), p, 10)
			if err != nil || len(batches) != 2 || batches[0].Strategy != schemas.StrategyRandom || batches[1].Features < 0 {
				t.Fatalf("%s: pair %d is in the mini-batches %+v (%v)", name, i, batches, err)
			}
		}
	}
	a, err := whole.Connections(t.Context(), 1, index.KindRandom, 0, 1000)
	b, berr := cut.Connections(t.Context(), 1, index.KindRandom, 0, 1000)
	if err != nil || berr != nil || len(a) != 300 || len(b) != 300 || a[0] != b[0] || a[299] != b[299] {
		t.Errorf("%d and %d connections in the random samples, want the same 300 (%v, %v)", len(a), len(b), err, berr)
	}
}

func TestOldestPairsMakeRoom(t *testing.T) {
	log := newLog(t)
	run := write(t, log, runlog.Options{Pairs: 3000})
	x := open(t, log, t.TempDir(), 1000)
	must.Do(t, x.Fill(t.Context()))
	if n := totals(t, x); n.Pairs != 1000 {
		t.Errorf("the index holds %d pairs, want 1000", n.Pairs)
	}
	if _, err := x.Pair(t.Context(), run.Pairs[0].ID); !errors.Is(err, index.ErrNotFound) {
		t.Errorf("the oldest pair: %v", err)
	}
	if _, err := x.Pair(t.Context(), run.Pairs[2999].ID); err != nil {
		t.Errorf("the latest pair: %v", err)
	}
}

func TestAnotherLogBeginsAnew(t *testing.T) {
	dir := t.TempDir()
	first := newLog(t)
	write(t, first, runlog.Options{Pairs: 300})
	x := open(t, first, dir, 10_000)
	must.Do(t, x.Fill(t.Context()))
	x.Close()
	for name, pairs := range map[string]int{"shorter": 100, "longer": 400} {
		second := newLog(t)
		captions := make(map[int]string)
		for i := range pairs {
			captions[i] = fmt.Sprintf("%s %d", name, i)
		}
		run := write(t, second, runlog.Options{Pairs: pairs, Captions: captions})
		x = open(t, second, dir, 10_000)
		if err := x.Fill(t.Context()); err == nil {
			t.Errorf("%s: another log is taken for the same", name)
		}
		must.Do(t, x.Fill(t.Context()))
		if n := totals(t, x); n.Pairs != int64(pairs) {
			t.Errorf("%s: the index holds %d pairs, want %d", name, n.Pairs, pairs)
		}
		if p, err := x.Pair(t.Context(), run.Pairs[0].ID); err != nil || p.Caption != name+" 0" {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
		x.Close()
	}
}

func TestABrokenFileIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	log := newLog(t)
	write(t, log, runlog.Options{Pairs: 50})
	open(t, log, dir, 10_000).Close()
	must.Do(t, os.WriteFile(filepath.Join(dir, "index.sqlite"), []byte("this is no database, but it is long enough to look like one, if one does not look closely at it at all"), 0o600))
	x := open(t, log, dir, 10_000)
	must.Do(t, x.Fill(t.Context()))
	if n := totals(t, x); n.Pairs != 50 {
		t.Errorf("the index holds %d pairs, want 50", n.Pairs)
	}
}

// A folder of the user's may hold a file by the name of the index. It is not taken for one, and stays as it is. An
// index that an earlier version left without a marker is the console's.
func TestAForeignFileIsNoIndex(t *testing.T) {
	dir, log := t.TempDir(), newLog(t)
	path := filepath.Join(dir, "index.sqlite")
	db := must.Get(sql.Open("sqlite", "file:"+path))(t)
	must.Get(db.ExecContext(t.Context(), "CREATE TABLE pair (n INTEGER); PRAGMA user_version = 77"))(t)
	must.Do(t, db.Close())
	for _, content := range [][]byte{must.Get(os.ReadFile(path))(t), []byte("the index of my thesis")} {
		must.Do(t, os.WriteFile(path, content, 0o600))
		_, err := index.Open(t.Context(), log, index.Options{Dir: dir, Pairs: 10})
		if !errors.Is(err, ownedfolder.ErrForeign) || !strings.Contains(err.Error(), "CONSOLE_DIR") {
			t.Errorf("error %v", err)
		}
		entries := must.Get(os.ReadDir(dir))(t)
		if after := must.Get(os.ReadFile(path))(t); !bytes.Equal(after, content) || len(entries) != 1 {
			t.Errorf("the file has changed, or has company: %v", entries)
		}
	}
	must.Do(t, os.Remove(path))
	open(t, log, dir, 10_000).Close()
	must.Do(t, os.Remove(filepath.Join(dir, ownedfolder.Marker)))
	open(t, log, dir, 10_000).Close()
}

func TestWordsAreQuoted(t *testing.T) {
	log := newLog(t)
	write(t, log, runlog.Options{Pairs: 3, Captions: map[int]string{0: "a NEAR miss", 1: "zwei Hunde am Strand", 2: `quotes " and * stars`}})
	x := open(t, log, t.TempDir(), 10_000)
	must.Do(t, x.Fill(t.Context()))
	for query, want := range map[string]int{"near": 1, `"`: 0, "hunde STRAND": 1, "* OR a": 0, "stars *": 1, "NOT": 0, `caption:x`: 0} {
		list, err := x.WithWords(t.Context(), query, 10)
		if err != nil || len(list) != want {
			t.Errorf("%q finds %d pairs (%v), want %d", query, len(list), err, want)
		}
	}
}
