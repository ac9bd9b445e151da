package experiments

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/lab/experiments/evidence"
	"github.com/pairstream/pairstream/schemas"
)

// tarsOf writes drawn scenes whose JSON has what meta says of their number.
func tarsOf(t *testing.T, n int, meta func(i int, captions []string) map[string]any) string {
	t.Helper()
	o := scenes.Defaults()
	o.Scenes, o.Captions, o.Side = n, 2, 32
	drawn, dir := t.TempDir(), filepath.Join(t.TempDir(), "world")
	must.Do(t, scenes.WriteDir(t.Context(), drawn, o, nil))
	w := must.Get(shard.NewDirWriter(dir, 1000))(t)
	i := 0
	must.Get(shard.Scan(t.Context(), []string{drawn}, shard.Visitor{
		Example: func(ex shard.Example) error {
			raw := must.Get(json.Marshal(meta(i, ex.Captions)))(t)
			i++
			return w.Write(fmt.Sprintf("%06d", i), shard.File{Ext: "png", Data: slices.Clone(ex.Encoded)}, shard.File{Ext: "json", Data: raw})
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("reading scenes: %s", p) },
	}))(t)
	must.Do(t, w.Close())
	return dir
}

// Every arm is measured on a world of tars, with the truth that they bring, and the same way each time.
func TestWorldOfTars(t *testing.T) {
	dir := tarsOf(t, 120, func(i int, captions []string) map[string]any {
		return map[string]any{"captions": captions, "same": i % 40}
	})
	p := must.Get(NewWorld(dir, true))(t)
	j := newJob(t, 1)
	measures := must.Get(p.Run(t.Context(), j))(t)
	r := &evidence.Result{}
	r.Add(evidence.Run{Seed: 1, Measures: measures})
	for _, table := range evidence.World().Tables {
		for _, line := range table.Cells(r)[1:] {
			if slices.Contains(line[len(line)-2:], "-") && line[0] != "first model" && table.Head == "trained with" {
				t.Errorf("the arm %q is not measured: %v", line[0], line)
			}
		}
		if rows := len(table.Cells(r)) - 1; rows != len(table.Rows) {
			t.Errorf("%q has %d rows, want %d", table.Title, rows, len(table.Rows))
		}
	}
	for _, m := range measures {
		if math.IsNaN(m.Value) {
			t.Errorf("%+v is no number", m)
		}
	}
}

// Things are kept back, not pictures: no picture of a thing that is measured is published, and each of these has one
// picture.
func TestWorldKeepsThingsBack(t *testing.T) {
	dir := tarsOf(t, 60, func(i int, captions []string) map[string]any {
		return map[string]any{"captions": captions, "same": fmt.Sprint("thing ", i%20)}
	})
	w := must.Get(readWorld(context.Background(), dir))(t)
	measured, gone := w.hold(100, 1)
	if len(measured) != 4 || len(gone) != 12 {
		t.Errorf("%d pictures are measured and %d kept back, want one of each of 4 things of three pictures", len(measured), len(gone))
	}
	other, _ := w.hold(100, 2)
	if fmt.Sprint(measured) == fmt.Sprint(other) {
		t.Error("two seeds keep the same things back")
	}
	var ids []schemas.ImageID
	for id := range w.things {
		ids = append(ids, id)
	}
	caption := w.pairs[0].Caption
	for _, id := range ids {
		if same := slices.Contains(w.said[caption], w.things[id]); w.fits(id, caption) != same {
			t.Errorf("a caption of %v fits a picture of %v: %t", w.said[caption], w.things[id], !same)
		}
	}
}

func TestWorldRefusesOtherTars(t *testing.T) {
	if _, err := NewWorld(t.TempDir(), true); err == nil || !strings.Contains(err.Error(), "there is no *.tar") {
		t.Errorf("a folder without tars: %v", err)
	}
	dir := tarsOf(t, 12, func(_ int, captions []string) map[string]any { return map[string]any{"captions": captions} })
	if _, err := readWorld(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "its JSON has no `same`") {
		t.Errorf("pictures of which nothing is known: %v", err)
	}
	few := tarsOf(t, 12, func(_ int, captions []string) map[string]any { return map[string]any{"captions": captions, "same": 1} })
	if _, err := readWorld(t.Context(), few); err == nil || !strings.Contains(err.Error(), "shows 1 things, want at least 10") {
		t.Errorf("one thing: %v", err)
	}
}
