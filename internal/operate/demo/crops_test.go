package demo

import (
	"bytes"
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/demo/scenes"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// photographs writes pictures with captions that no other picture has, one of them damaged and one with a single
// caption.
func photographs(t *testing.T, pictures, captions int) string {
	t.Helper()
	drawn, dir := t.TempDir(), filepath.Join(t.TempDir(), "photographs")
	o := scenes.Defaults()
	o.Scenes, o.Side = pictures, 100
	must.Do(t, scenes.WriteDir(t.Context(), drawn, o, nil))
	tars := must.Get(shard.NewDirWriter(dir, 20))(t)
	n := 0
	must.Get(shard.Scan(t.Context(), []string{drawn}, shard.Visitor{
		Example: func(ex shard.Example) error {
			key, image := strconv.Itoa(n), ex.Encoded
			own := make([]string, captions)
			for i := range own {
				own[i] = strconv.Quote("picture " + key + " in words " + strconv.Itoa(i))
			}
			switch n {
			case 0:
				image = image[:len(image)/2]
			case 1:
				own = own[:1]
			}
			n++
			return tars.Write(key, shard.File{Ext: "png", Data: image},
				shard.File{Ext: "json", Data: []byte(`{"captions":[` + strings.Join(own, ",") + `]}`)})
		},
		Problem: func(p shard.Problem) error { t.Errorf("%s", p); return nil },
	}))(t)
	must.Do(t, tars.Close())
	return dir
}

// On photographs with several captions, every caption is published with a picture of its own. The demo knows the
// others.
func TestPhotographsArePublishedAsCrops(t *testing.T) {
	var out bytes.Buffer
	d := &demo{out: &out, Options: Options{Dir: t.TempDir(), Data: photographs(t, 30, 4), HeldOut: 5}}
	must.Do(t, d.read(t.Context(), false))
	single := 0 // whether the picture with one caption is published
	for i := range d.train.Pairs() {
		if caption, _, _ := d.train.Pair(i); caption == "picture 1 in words 0" {
			single = 1
		}
	}
	// 30 pictures, one of them damaged, 5 held out.
	if want := 4*(24-single) + single; d.train.Pairs() != want || d.train.Images() != want || d.held.Images() != 5 {
		t.Fatalf("%d pairs of %d pictures, want %d of each; %d held out", d.train.Pairs(), d.train.Images(), want, d.held.Images())
	}
	if d.known == nil || d.known.held || !strings.Contains(out.String(), "each with a crop of its own") {
		t.Fatalf("the demo knows %+v, and says %q", d.known, out.String())
	}
	for i := range d.train.Pairs() {
		text, _, _ := d.train.Pair(i)
		for k := range d.train.Pairs() {
			_, _, id := d.train.Pair(k)
			other, _, _ := d.train.Pair(k)
			same := strings.Fields(text)[1] == strings.Fields(other)[1]
			if d.known.fits(id, text) != same {
				t.Fatalf("%q fits the picture of %q: %t", text, other, !same)
			}
		}
	}
	if d.matches() != nil {
		t.Error("the demo says that it knows what is true of held-out photographs")
	}
	// The damaged picture is published too, so that the encoder sets it aside.
	published := map[schemas.ImageID]int{}
	_, err := shard.Scan(context.Background(), []string{d.source}, shard.Visitor{
		Example: func(ex shard.Example) error { published[ex.ImageID] += len(ex.Captions); return nil },
		Problem: func(p shard.Problem) error { t.Errorf("%s", p); return nil },
	})
	if err != nil || len(published) != d.train.Images()+1 {
		t.Errorf("%d pictures are published, want %d and the damaged one: %v", len(published), d.train.Images(), err)
	}
	for i := range d.held.Images() {
		if _, id := d.held.Image(i); published[id] > 0 {
			t.Error("a held-out picture is published")
		}
	}
}

// Photographs with one caption each are published as they are, and nobody knows what is true of them.
func TestPhotographsWithOneCaption(t *testing.T) {
	d := &demo{out: new(bytes.Buffer), Options: Options{Dir: t.TempDir(), Data: photographs(t, 20, 1), HeldOut: 5}}
	must.Do(t, d.read(t.Context(), false))
	if d.known != nil || d.source != d.Data || d.train.Pairs() != 14 {
		t.Errorf("%d pairs of %s, known %+v", d.train.Pairs(), d.source, d.known)
	}
}
