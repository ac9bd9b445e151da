package shard_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestShareOfTars scans half of the examples of two tars. Their references are those of the whole tars.
func TestShareOfTars(t *testing.T) {
	dir := t.TempDir()
	for n := range 2 {
		var members []member
		for i := range 60 {
			key := fmt.Sprintf("%03d", i)
			members = append(members, member{name: key + ".png", data: picture(t, 50*n+i)}, member{name: key + ".txt", data: "caption " + key})
		}
		writeFile(t, dir, fmt.Sprintf("%d.tar", n), buildTar(t, members...))
	}
	scan := func(path string) (map[schemas.ImageRef]schemas.ImageID, shard.Totals) {
		refs := map[schemas.ImageRef]schemas.ImageID{}
		totals := must.Get(shard.Scan(t.Context(), []string{path}, shard.Visitor{
			Example: func(ex shard.Example) error { refs[ex.Image] = ex.ImageID; return nil },
			Problem: func(p shard.Problem) error { t.Errorf("%v", p); return nil },
		}))(t)
		return refs, totals
	}
	all, _ := scan(dir)
	half, totals := scan(dir + "?sample=0.5&seed=1")
	if len(half) < 30 || len(half) > 90 || totals.Examples != len(half) || totals.Pairs != len(half) {
		t.Errorf("half of %d examples is %d, and the totals are %d and %d", len(all), len(half), totals.Examples, totals.Pairs)
	}
	drawn := map[schemas.ImageID]bool{}
	for ref, id := range half {
		drawn[id] = true
		if all[ref] != id {
			t.Errorf("%v is no reference of the whole tars", ref)
		}
	}
	for ref, id := range all { // ten images are in both tars
		if _, taken := half[ref]; taken != drawn[id] {
			t.Errorf("one copy of image %s is drawn and another is not", id)
		}
	}
	if other, _ := scan(dir + "?sample=0.5&seed=2"); maps.Equal(other, half) {
		t.Error("another seed draws the same examples")
	}

	found := must.Get(shard.Find(t.Context(), []string{filepath.Join(dir, "0.tar"), dir + "?sample=0.5", dir + "?sample=5e-1&seed=0"}, nil))(t)
	defer found.Close()
	var names []string
	for _, tar := range found.Tars {
		names = append(names, strings.TrimPrefix(tar.URI, shard.FileURI(dir)))
	}
	if got, want := strings.Join(names, " "), "/0.tar /0.tar?sample=0.5&seed=0 /1.tar?sample=0.5&seed=0"; got != want {
		t.Errorf("the sources are %s, want %s", got, want)
	}
	if roots := must.Get(shard.Roots([]string{dir + "?sample=0.5"}))(t); len(roots) != 1 || roots[0] != shard.FileURI(dir) {
		t.Errorf("the roots are %q", roots)
	}
	if _, err := shard.Find(t.Context(), []string{dir + "?sample=100"}, nil); err == nil || !strings.Contains(err.Error(), "want a share between 0 and 1") {
		t.Errorf("a number of examples of tars: %v", err)
	}
	options := shard.WithOptions([]string{"s3://b/p/?sample=0.5"}, []string{"s3://b/?region=x"})
	if want := "s3://b/p/?region=x&sample=0.5&seed=0"; options[0] != want {
		t.Errorf("with the options of its root a place is %s, want %s", options[0], want)
	}
}

// A source that stands twice, the second time as a copy, has every pair as two samples, of one image and with captions
// that differ in no word. Without the option it is one source.
func TestACopyIsAnotherSample(t *testing.T) {
	dir := t.TempDir()
	var members []member
	var entries []string
	longest := strings.Repeat("x", schemas.MaxCaptionBytes)
	for i := range 8 {
		key, text := fmt.Sprintf("%03d", i), fmt.Sprintf("caption %d", i)
		if i == 7 {
			text = longest
		}
		members = append(members, member{name: key + ".png", data: picture(t, i)}, member{name: key + ".txt", data: text})
		writeFile(t, dir, key+".png", []byte(picture(t, i)))
		entries = append(entries, fmt.Sprintf(`{"image": "%s.png", "caption": %q}`, key, text))
	}
	tars := writeFile(t, dir, "a.tar", buildTar(t, members...))
	list := writeFile(t, dir, "list.json", []byte("["+strings.Join(entries, ",")+"]"))
	for _, source := range []string{tars, list} {
		scan := func(paths ...string) (pairs map[schemas.PairID]*schemas.Pair, long int) {
			pairs = map[schemas.PairID]*schemas.Pair{}
			must.Get(shard.Scan(t.Context(), paths, shard.Visitor{
				Example: func(ex shard.Example) error {
					for _, p := range shard.Pairs(ex) {
						must.Do(t, p.Validate())
						pairs[p.ID] = p
					}
					return nil
				},
				Problem: func(p shard.Problem) error {
					if p.Reason != shard.ReasonLong {
						t.Errorf("%v", p)
					}
					long++
					return nil
				},
			}))(t)
			return pairs, long
		}
		once, _ := scan(source, source)
		again, _ := scan(source+"?copy=1", source)
		both, long := scan(source, source+"?copy=1", source+"?copy=2")
		if len(once) != 8 || len(again) != 15 || len(both) != 22 || long != 2 {
			t.Errorf("%s: %d pairs, with a copy %d, with two %d and %d that are too long, want 8, 15, 22 and 2", source, len(once), len(again), len(both), long)
		}
		images, texts := map[schemas.ImageID]int{}, map[string]int{}
		for _, p := range both {
			images[p.ImageID]++
			texts[strings.TrimRight(p.Caption, " ")]++
		}
		for _, counts := range []int{len(images), len(texts)} {
			if counts != 8 {
				t.Errorf("%s: %d images and %d captions, want 8 of each", source, len(images), len(texts))
			}
		}
	}
	if _, err := shard.Find(t.Context(), []string{list + "?copy=10"}, nil); err == nil || !strings.Contains(err.Error(), "want a number of 1..9") {
		t.Errorf("ten copies: %v", err)
	}
}
