//go:build cgo

package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/ownedfolder"
	"github.com/pairstream/pairstream/internal/crawl/plans"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/batches"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// filesIn returns the contents of a folder by name.
func filesIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.Do(t, err)
	found := map[string][]byte{}
	for _, e := range entries {
		if e.Name() == ownedfolder.Marker {
			continue
		}
		if found[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// planIn returns the files of a plan but for its report, which tells times.
func planIn(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	found := filesIn(t, dir)
	if !bytes.Contains(found["report.html"], []byte("</html>")) {
		t.Errorf("%s has no report", dir)
	}
	delete(found, "report.html")
	return found
}

func samePlan(t *testing.T, what string, got, want map[string][]byte) {
	t.Helper()
	if len(want) < 5 || !maps.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%s: %q, want %q with the same bytes", what, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestPlanIsWhatTheStreamGives writes a plan, and the same from the log of a stream of the same pairs. A plan that was
// cut short by a kill, and one that is made anew, have the same bytes.
func TestPlanIsWhatTheStreamGives(t *testing.T) {
	if apart(t) {
		return
	}
	in := setUpPipeline(t, 24)
	t.Setenv("GRIT_FEATURES", "encoder")
	t.Setenv("KAFKA_BROKERS", "")
	t.Setenv("NAMESPACE", "")
	out := mustCommand(t, "batches", "--out", in("plan"), in("scenes"))
	want := planIn(t, in("plan"))
	if !strings.Contains(out, "are connections") || want["plan.json"] == nil {
		t.Fatalf("%s\n%q", out, slices.Sorted(maps.Keys(want)))
	}
	if out := mustCommand(t, "batches", "--out", in("plan"), in("scenes")); !strings.Contains(out, "is complete") {
		t.Errorf("a second run: %s", out)
	}
	t.Setenv("SEED", "4")
	if _, err := command(t, "batches", "--out", in("plan"), in("scenes")); err == nil || !strings.Contains(err.Error(), "another folder") {
		t.Errorf("another seed in the same folder: %v", err)
	}
	t.Setenv("SEED", "3")

	p := start(t, "produce", "PRODUCE_ARGS=batches\n--out\n"+in("killed")+"\n"+in("scenes"))
	begun := filepath.Join(in("killed"), plans.Name(0, 0)+".partial") // its first mini-batch is there
	if p.killWhen(t, func() bool { _, err := os.Stat(begun); return err == nil }) {
		mustCommand(t, "batches", "--out", in("killed"), in("scenes"))
	}
	samePlan(t, "after a kill", planIn(t, in("killed")), want)

	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("NAMESPACE", "stream")
	t.Setenv("CHECKPOINT_DIR", in("checkpoints"))
	mustCommand(t, "produce", in("scenes"), "--final")
	mustCommand(t, "up")
	streamed := exported(t, in("streamed"), in("scenes"))
	for name, bytesOf := range streamed {
		if !bytes.Equal(want[name], bytesOf) {
			t.Errorf("%s is another one than the stream's", name)
		}
	}
	if len(streamed) != len(want)-1 {
		t.Errorf("the stream gives %d files, the plan has %d", len(streamed), len(want)-1)
	}
	checkPlan(t, in("plan"))
}

// exported writes what the log of a stream holds.
func exported(t *testing.T, dir, scenes string) map[string][]byte {
	t.Helper()
	must.Do(t, os.Mkdir(dir, 0o700))
	log := openNamespace(t)
	named := map[plans.Place]string{}
	must.Get(shard.Scan(t.Context(), []string{scenes}, shard.Visitor{
		Example: func(ex shard.Example) error {
			named[plans.Place{URI: ex.Image.URI, Offset: ex.Image.Offset}] = ex.Key
			return nil
		},
		Problem: func(p shard.Problem) error { t.Errorf("%v", p); return nil },
	}))(t)
	keys := func(at plans.Place) string { return named[at] }
	for lane := range log.Config().Lanes {
		w := plans.NewWriter(dir, lane, 0.8, keys)
		for b, err := range stream.Values[*schemas.ScoredBatch](t.Context(), log, schemas.Scored, lane) {
			must.Do(t, err)
			must.Do(t, w.Add(b))
		}
		must.Get(w.Close())(t)
	}
	return filesIn(t, dir)
}

// readManifest returns plan.json.
func readManifest(t *testing.T, dir string) (m batches.Manifest) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "plan.json"))
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	must.Do(t, err)
	return m
}

// planRows returns the samples of files of a plan.
func planRows(t *testing.T, dir string, files []plans.File) (rows []table.Row) {
	t.Helper()
	for _, file := range files {
		must.Do(t, table.ParquetFile(t.Context(), filepath.Join(dir, file.Name), func(r table.Row) error {
			rows = append(rows, r)
			return nil
		}))
	}
	return rows
}

// checkPlan wants every pair once in every epoch, with a key and a place at which its image lies.
func checkPlan(t *testing.T, dir string) {
	t.Helper()
	m := readManifest(t, dir)
	seen := map[int32]map[string]int{}
	scores := int64(0)
	for _, file := range m.Files {
		if seen[file.Epoch] == nil {
			seen[file.Epoch] = map[string]int{}
		}
		for _, r := range planRows(t, dir, []plans.File{file}) {
			seen[file.Epoch][r.Text("pair")]++
			if r.Text("key") == "" || !strings.HasPrefix(r.Text("uri"), "file://") || r.Text("text") == "" {
				t.Errorf("%s has a row %v", file.Name, r)
			}
		}
		scores += file.Scores
	}
	if len(seen) != m.Epochs || scores == 0 || m.ConD == "" {
		t.Errorf("%d epochs of %d, %d scores by Con-D %q", len(seen), m.Epochs, scores, m.ConD)
	}
	for epoch, pairs := range seen {
		if len(pairs) != m.Pairs {
			t.Errorf("epoch %d has %d pairs, want %d", epoch, len(pairs), m.Pairs)
		}
		for id, n := range pairs {
			if n != 1 {
				t.Errorf("epoch %d has pair %s %d times", epoch, id, n)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "work")); err == nil {
		t.Error("the log of the run is still there")
	}
}
