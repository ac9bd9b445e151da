package scenes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/imaging"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func options() scenes.Options {
	o := scenes.Defaults()
	o.Scenes, o.PerShard, o.Side = 150, 70, 24 // small pictures are drawn in a moment
	return o
}

func makeScene(t testing.TB, o scenes.Options, i int) (scenes.Record, []byte) {
	t.Helper()
	r, encoded := must.Get2(scenes.Make(o, i))(t)
	return r, encoded
}

func write(t testing.TB, o scenes.Options) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "scenes")
	last := 0
	must.Do(t, scenes.WriteDir(context.Background(), dir, o, func(done int) { last = done }))
	if last != o.Scenes {
		t.Errorf("progress ended at %d of %d", last, o.Scenes)
	}
	return dir
}

func files(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	out := map[string]string{}
	for _, e := range entries {
		raw := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		out[e.Name()] = string(raw)
	}
	return out
}

func TestSameSeedSameBytes(t *testing.T) {
	for _, format := range []string{"png", "jpeg"} {
		o := options()
		o.Format, o.WrongShare = format, 0.2
		a := files(t, write(t, o))
		before := runtime.GOMAXPROCS(1)
		b := files(t, write(t, o))
		runtime.GOMAXPROCS(before)
		if !maps.Equal(a, b) {
			t.Errorf("%s: the same options gave other bytes on one processor", format)
		}
		if names := slices.Sorted(maps.Keys(a)); !slices.Equal(names, []string{"00000.tar", "00001.tar", "00002.tar"}) {
			t.Errorf("%s: files %v", format, names)
		}
		o.Seed++
		if maps.Equal(a, files(t, write(t, o))) {
			t.Errorf("%s: another seed gave the same bytes", format)
		}
	}
}

// TestFirstScenesStayTheSame holds scenes and captions across versions of this package: runs are compared by them. A
// deliberate change replaces testdata/first.json by what is printed.
func TestFirstScenesStayTheSame(t *testing.T) {
	var first []scenes.Record
	o := scenes.Defaults()
	o.WrongShare, o.IrrelevantShare = 0.2, 0.1
	for i := range 4 {
		r, _ := makeScene(t, o, i)
		first = append(first, r)
	}
	got := must.Get(json.MarshalIndent(first, "", " "))(t)
	want := must.Get(os.ReadFile(filepath.Join("testdata", "first.json")))(t)
	if !bytes.Equal(bytes.TrimSpace(want), got) {
		t.Errorf("the first scenes are now\n%s", got)
	}
}

func TestScanReadsScenes(t *testing.T) {
	o := options()
	o.WrongShare, o.IrrelevantShare = 0.1, 0.1
	n := 0
	totals, err := shard.Scan(context.Background(), []string{write(t, o)}, shard.Visitor{
		Example: func(ex shard.Example) error {
			want, encoded := makeScene(t, o, n)
			got, err := scenes.ReadRecord(ex.Meta)
			if err != nil {
				return err
			}
			if !reflect.DeepEqual(got, want) || !bytes.Equal(ex.Encoded, encoded) || !slices.Equal(ex.Captions, want.Captions) {
				t.Errorf("scene %d reads back as %+v, want %+v", n, got, want)
			}
			n++
			return nil
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("%v", p) },
	})
	if err != nil || totals.Examples != o.Scenes || totals.Pairs != o.Scenes*o.Captions {
		t.Errorf("%+v, %v", totals, err)
	}
	if _, err := scenes.ReadRecord([]byte("{")); err == nil {
		t.Error("a broken record was read")
	}
}

// TestLabelsTellTheTruth checks every caption's label against the meaning of its words.
func TestLabelsTellTheTruth(t *testing.T) {
	o := options()
	o.Captions, o.WrongShare, o.IrrelevantShare = 6, 0.3, 0.1
	counts := map[scenes.Truth]int{}
	fits := 0 // captions that also fit the next scene
	next, _ := makeScene(t, o, 0)
	for i := range 400 {
		r := next
		next, _ = makeScene(t, o, i+1)
		seen := map[string]bool{}
		for k, l := range r.Labels {
			counts[l.Truth]++
			if l.Caption != r.Captions[k] || seen[l.Caption] {
				t.Errorf("scene %d: captions %q", i, r.Captions)
			}
			seen[l.Caption] = true
			if got, want := scenes.Matches(r.Scene, l.Caption), l.Truth == scenes.True; got != want {
				t.Errorf("scene %d: %q is labelled %s, but matches: %v", i, l.Caption, l.Truth, got)
			}
			st, err := scenes.Parse(l.Caption)
			if (err != nil) != (l.Truth == scenes.Irrelevant) || err == nil && !reflect.DeepEqual(st, *l.Statement) {
				t.Errorf("%q parses as %+v, %v, labelled %+v", l.Caption, st, err, l)
			}
			if scenes.Matches(next.Scene, l.Caption) {
				fits++
			}
		}
	}
	if w, ir := counts[scenes.Wrong], counts[scenes.Irrelevant]; w < 620 || w > 820 || ir < 180 || ir > 300 {
		t.Errorf("of 2,400 captions %d are wrong and %d irrelevant, want about 720 and 240", w, ir)
	}
	if fits < 5 || fits > 600 {
		t.Errorf("%d of 2,400 captions fit another scene too: false negatives should be some, not many", fits)
	}
}

func TestScenesAreWellPlaced(t *testing.T) {
	counts := map[int]int{}
	for i := range 2000 {
		s := scenes.Kinds{}.Random(rng.New(3, "test", int64(i)))
		counts[len(s.Objects)]++
		for a, o := range s.Objects {
			r := map[scenes.Size]int{"small": 145, "large": 215}[o.Size]
			if o.X < r || o.Y < r || o.X > scenes.Unit-r || o.Y > scenes.Unit-r {
				t.Fatalf("scene %d: object %+v leaves the picture", i, o)
			}
			for _, p := range s.Objects[:a] {
				for _, d := range []int{o.X - p.X, o.Y - p.Y} {
					if d = max(d, -d); d > 180 && d < 320 {
						t.Fatalf("scene %d: objects %+v and %+v are neither beside one another nor apart", i, o, p)
					}
				}
			}
		}
	}
	for n, want := range map[int]int{1: 400, 2: 700, 3: 500, 4: 400} {
		if counts[n] < want*8/10 || counts[n] > want*12/10 {
			t.Errorf("%d scenes of %d objects, want about %d", counts[n], n, want)
		}
	}
}

// TestPicturesShowTheScene looks for every object's colour at its place.
func TestPicturesShowTheScene(t *testing.T) {
	want := map[scenes.Colour][3]int{
		"red": {216, 38, 38}, "orange": {250, 138, 20}, "yellow": {248, 214, 36}, "green": {38, 156, 66},
		"blue": {38, 88, 208}, "purple": {136, 58, 178}, "pink": {246, 128, 184}, "black": {44, 44, 48},
	}
	for _, side := range []int{48, 64, 96, 200} {
		for i := range 100 {
			o := options()
			o.Side, o.Kinds = side, scenes.Kinds{Shapes: 6, Plain: true}
			r, encoded := makeScene(t, o, i)
			im, err := imaging.Decode(encoded)
			if err != nil || im.W != side || im.H != side {
				t.Fatalf("scene %d at %d pixels: %v, %v", i, side, im, err)
			}
			for _, ob := range r.Scene.Objects {
				x, y := ob.X, ob.Y
				if ob.Shape == "ring" { // its middle is empty
					x += map[scenes.Size]int{"small": 145, "large": 215}[ob.Size] * 3 / 4
				}
				red, green, blue := im.At(x*side/scenes.Unit, y*side/scenes.Unit)
				for c, v := range [3]byte{red, green, blue} {
					if d := int(v) - want[ob.Colour][c]; max(d, -d) > 14 {
						t.Fatalf("scene %d at %d pixels: %+v is drawn as %v", i, side, ob, [3]byte{red, green, blue})
					}
				}
			}
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*scenes.Options){
		"scenes": func(o *scenes.Options) { o.Scenes = 0 }, "captions": func(o *scenes.Options) { o.Captions = 21 },
		"side": func(o *scenes.Options) { o.Side = 8 }, "format": func(o *scenes.Options) { o.Format = "gif" },
		"per shard": func(o *scenes.Options) { o.PerShard = 0 }, "shares": func(o *scenes.Options) { o.WrongShare, o.IrrelevantShare = 0.6, 0.5 },
		"false negatives is 0.01, want 0 or 0.02..0.4": func(o *scenes.Options) { o.FalseNegatives = 0.01 },
		"false negatives is 0.41, want 0 or 0.02..0.4": func(o *scenes.Options) { o.FalseNegatives = 0.41 },
		"leave out shapes": func(o *scenes.Options) { o.FalseNegatives, o.Kinds.Plain = 0.1, true },
	} {
		o := options()
		change(&o)
		if err := scenes.WriteDir(context.Background(), t.TempDir(), o, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("bad %s: %v", name, err)
		}
	}
	dir := write(t, options())
	if err := scenes.WriteDir(context.Background(), dir, options(), nil); err == nil {
		t.Error("wrote into a folder that holds tars")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	empty := t.TempDir()
	if err := scenes.WriteDir(ctx, empty, options(), nil); err == nil || len(files(t, empty)) > 0 {
		t.Errorf("called off: %v, left %v", err, slices.Collect(maps.Keys(files(t, empty))))
	}
}

// TestManyCaptionsOfAPlainScene makes as many captions as are allowed of scenes of one object.
func TestManyCaptionsOfAPlainScene(t *testing.T) {
	o := options()
	o.Captions = 20
	for i := range 50 {
		if r, _ := makeScene(t, o, i); len(r.Captions) != 20 {
			t.Fatalf("%d captions", len(r.Captions))
		}
	}
}

func BenchmarkMake(b *testing.B) {
	o := scenes.Defaults()
	for i := 0; b.Loop(); i++ {
		makeScene(b, o, i)
	}
}

// Fewer kinds of objects make more captions true of more pictures, and nothing else changes.
func TestKindsNarrowScenes(t *testing.T) {
	shared := func(k scenes.Kinds) int {
		o := options()
		o.Kinds, o.Captions = k, 1
		var records []scenes.Record
		for i := range o.Scenes {
			r, _ := makeScene(t, o, i)
			for _, ob := range r.Scene.Objects {
				if k.Shapes > 0 && slices.Index(scenes.Shapes, ob.Shape) >= k.Shapes || k.Colours > 0 && slices.Index(scenes.Colours, ob.Colour) >= k.Colours ||
					k.Large && ob.Size != "large" {
					t.Fatalf("%+v: scene %d has %+v", k, i, ob)
				}
			}
			if n := len(r.Scene.Objects); k.Objects > 0 && n != k.Objects {
				t.Fatalf("%+v: scene %d has %d objects", k, i, n)
			}
			records = append(records, r)
		}
		n := 0
		for i, a := range records {
			for j, b := range records {
				if i != j && scenes.Matches(a.Scene, b.Captions[0]) {
					n++
				}
			}
		}
		return n
	}
	if all, few := shared(scenes.Kinds{}), shared(scenes.Kinds{Shapes: 2, Colours: 3, Objects: 1, Large: true}); few < 10*all || few == 0 {
		t.Errorf("%d captions are true of other scenes, and %d of few kinds, want far more", all, few)
	}
	for want, k := range map[string]scenes.Kinds{
		"shapes is 42, want 0..41": {Shapes: 42}, "colours is -1, want 0..8": {Colours: -1}, "objects is 5, want 0..4": {Objects: 5},
	} {
		o := options()
		o.Kinds = k
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one that says %q", err, want)
		}
	}
}
