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

// Ids that differ in their last digit alone are of two things.
func TestIdsOfThings(t *testing.T) {
	for raw, want := range map[string]string{`12345678901234567`: "12345678901234567", `12345678901234568`: "12345678901234568", `"1F600-1F3FB"`: "1F600-1F3FB", `0`: "0"} {
		if got := must.Get(sameOf([]byte(`{"same":` + raw + `}`)))(t); got != want {
			t.Errorf("%s is read as %q", raw, got)
		}
	}
}

// Each caption of a thing that is kept back is right for its picture, whatever picture it was written for.
func TestWorldTakesAnyCaptionOfAThing(t *testing.T) {
	dir := tarsOf(t, 60, func(i int, captions []string) map[string]any {
		return map[string]any{"captions": append(captions, fmt.Sprint("kind ", i%20%4)), "same": i % 20}
	})
	j := newJob(t, 1)
	j.Photos = dir
	d := must.Get(must.Get(NewWorld(dir, true))(t).Settings.(worldSettings).data(t.Context(), j, dir))(t)
	defer func() { must.Do(t, d.closeImages()) }()
	fits := (&setup{data: d}).heldMatches()
	shared := 0
	for text := range d.held.Pairs() {
		caption, own, _ := d.held.Pair(text)
		for image := range d.held.Images() {
			_, id := d.held.Image(image)
			if fits(image, text) != d.fits(id, caption) || image == own && !fits(image, text) {
				t.Errorf("%q fits picture %d: %t", caption, image, fits(image, text))
			}
			if image != own && fits(image, text) {
				shared++
			}
		}
	}
	if shared == 0 {
		t.Error("no caption is true of two things: the test says nothing")
	}
}

func TestWorldRefusesOtherTars(t *testing.T) {
	if _, err := NewWorld(t.TempDir(), true); err == nil || !strings.Contains(err.Error(), "there is no *.tar") {
		t.Errorf("a folder without tars: %v", err)
	}
	for name, c := range map[string]struct {
		same any
		want string
	}{
		"nothing": {nil, "has no `same`"}, "an empty id": {" ", "is empty"}, "a list": {[]string{"a"}, "is [a]"}, "an object": {map[string]int{"id": 1}, "is map[id:1]"},
		"a boolean": {true, "is true"},
	} {
		dir := tarsOf(t, 12, func(_ int, captions []string) map[string]any {
			return map[string]any{"captions": captions, "same": c.same}
		})
		_, err := readWorld(t.Context(), dir)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `picture "000001"`) || !strings.Contains(err.Error(), "want an id, a string or a number") {
			t.Errorf("%s in the place of an id: %v", name, err)
		}
	}
	if _, err := sameOf(nil); err == nil || !strings.Contains(err.Error(), "no JSON") {
		t.Errorf("no JSON: %v", err)
	}
	if _, err := sameOf([]byte(`{"same": `)); err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("JSON cut short: %v", err)
	}
	malformed := filepath.Join(t.TempDir(), "world")
	w := must.Get(shard.NewDirWriter(malformed, 1000))(t)
	must.Do(t, w.Write("a-picture", shard.File{Ext: "txt", Data: []byte("a caption")}, shard.File{Ext: "json", Data: []byte(`{"same": "x"`)}))
	must.Do(t, w.Close())
	if _, err := readWorld(t.Context(), malformed); err == nil || !strings.Contains(err.Error(), "a-picture") || !strings.Contains(err.Error(), "no JSON object") {
		t.Errorf("JSON cut short in a tar: %v", err)
	}
	few := tarsOf(t, 12, func(_ int, captions []string) map[string]any { return map[string]any{"captions": captions, "same": 1} })
	if _, err := readWorld(t.Context(), few); err == nil || !strings.Contains(err.Error(), "shows 1 things, want at least 10") {
		t.Errorf("one thing: %v", err)
	}
}
