package shard_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

func TestWriterSaysWhereThingsLie(t *testing.T) {
	write := func() ([]byte, [][]int64) {
		var buf bytes.Buffer
		w := shard.NewWriter(&buf)
		var at [][]int64
		for i := range 3 {
			key := fmt.Sprintf("%s%d", strings.Repeat("long/", 40*i), i) // past the limit of short names
			offsets := must.Get(w.Write(key, shard.File{Ext: "png", Data: []byte(picture(t, i))}, shard.File{Ext: "txt", Data: fmt.Appendf(nil, "caption %d", i)}))(t)
			at = append(at, offsets)
		}
		must.Do(t, w.Close())
		return buf.Bytes(), at
	}
	raw, at := write()
	for i, offsets := range at {
		text := fmt.Sprintf("caption %d", i)
		if !bytes.HasPrefix(raw[offsets[0]:], []byte(picture(t, i))) || !bytes.HasPrefix(raw[offsets[1]:], []byte(text)) {
			t.Errorf("example %d does not lie at %v", i, offsets)
		}
	}
	if again, _ := write(); !bytes.Equal(raw, again) {
		t.Error("the same examples gave other bytes")
	}
	f := scan(t, raw)
	if len(f.examples) != 3 || len(f.problems) > 0 {
		t.Errorf("read back %d examples, problems %v", len(f.examples), f.problems)
	}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		must.Do(t, err)
		if h.ModTime.Unix() != 0 || h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.Mode != 0o644 {
			t.Errorf("%s tells of where it was written: %+v", h.Name, h)
		}
	}
}

func TestDirWriter(t *testing.T) {
	for _, c := range []struct {
		examples int
		want     []int // examples of each tar
	}{{0, nil}, {3, []int{3}}, {4, []int{4}}, {9, []int{4, 4, 1}}} {
		dir := filepath.Join(t.TempDir(), "new", "folder")
		d := must.Get(shard.NewDirWriter(dir, 4))(t)
		for i := range c.examples {
			must.Do(t, d.Write(fmt.Sprintf("%06d", i), shard.File{Ext: "png", Data: []byte(picture(t, i))}, shard.File{Ext: "txt", Data: []byte("x")}))
		}
		must.Do(t, d.Close())
		var got []int
		for i := range c.want {
			got = append(got, len(scanFile(t, filepath.Join(dir, fmt.Sprintf("%05d.tar", i))).examples))
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != len(c.want) || !slices.Equal(got, c.want) {
			t.Errorf("%d examples: tars of %v, %d files (%v), want %v", c.examples, got, len(entries), err, c.want)
		}
	}
}

func TestDirWriterAbortLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	d := must.Get(shard.NewDirWriter(dir, 4))(t)
	must.Do(t, d.Write("a", shard.File{Ext: "txt", Data: []byte("x")}))
	must.Do(t, d.Abort())
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left %v (%v)", entries, err)
	}
	if _, err := shard.NewDirWriter(dir, 0); err == nil {
		t.Error("shards of no examples were accepted")
	}
}

func TestHeldOutIsTheSmallest(t *testing.T) {
	var ids []schemas.ImageID
	for i := range 500 {
		sum := sha256.Sum256([]byte{byte(i), byte(i >> 8)})
		ids = append(ids, schemas.ImageID(sum[:16]))
	}
	sorted := slices.Clone(ids)
	slices.SortFunc(sorted, func(a, b schemas.ImageID) int { return bytes.Compare(a[:], b[:]) })
	for _, n := range []int{-1, 0, 1, 7, 499, 500, 600} {
		h := shard.NewHeldOut(n)
		order := rand.New(rand.NewPCG(1, uint64(n+1)))
		for range 3 { // every id is seen three times, in three orders
			order.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			for _, id := range ids {
				before := h.Wants(id)
				h.Add(id)
				if before != (h.Has(id) && before) {
					t.Fatal("an id that was wanted was not taken")
				}
			}
		}
		want := min(max(n, 0), 500)
		if h.Len() != want {
			t.Errorf("%d of %d held out", h.Len(), want)
		}
		for i, id := range sorted {
			if h.Has(id) != (i < want) {
				t.Errorf("of %d, id number %d: held out %v", n, i, h.Has(id))
			}
		}
	}
}

func TestPairs(t *testing.T) {
	ex := shard.Example{
		Key: "a/b", Image: schemas.ImageRef{URI: "file:///x/0.tar", Offset: 512, Size: 3}, ImageID: schemas.NewImageID([]byte("abc")),
		Captions: []string{"one", "two"},
	}
	for meta, source := range map[string]string{
		"": "0.tar#a/b", `{"url":"https://example.com/1.jpg"}`: "https://example.com/1.jpg", `{"url":3}`: "0.tar#a/b", `broken`: "0.tar#a/b",
	} {
		ex.Meta = []byte(meta)
		pairs := shard.Pairs(ex)
		if len(pairs) != 2 {
			t.Fatalf("%d pairs", len(pairs))
		}
		for i, p := range pairs {
			if p.Caption != ex.Captions[i] || *p.Image != ex.Image || p.ImageID != ex.ImageID || p.Source != source || p.Validate() != nil {
				t.Errorf("meta %q, pair %d: %+v (%v)", meta, i, p, p.Validate())
			}
		}
	}
}

// TestFlickr reads real shards where PAIRSTREAM_FLICKR names their folder.
func TestFlickr(t *testing.T) {
	dir := os.Getenv("PAIRSTREAM_FLICKR")
	if dir == "" {
		t.Skip("PAIRSTREAM_FLICKR names no folder of Flickr8k shards")
	}
	roots := must.Get(shard.Roots([]string{dir}))(t)
	b := openBucket(t, roots...)
	c := shard.NewImages(b, shard.ImagesOptions{MaxBytes: 1 << 20})
	ctx, seen := context.Background(), 0
	totals, err := shard.Scan(ctx, []string{dir}, shard.Visitor{
		Example: func(ex shard.Example) error {
			if seen++; seen%10 != 0 {
				_, err := b.ReadRange(ctx, ex.Image, ex.ImageID)
				return err
			}
			im, err := c.Get(ctx, ex.Image, ex.ImageID)
			if err == nil && (im.W < 50 || im.H < 50) {
				err = fmt.Errorf("%d x %d pixels", im.W, im.H)
			}
			return err
		},
		Problem: func(p shard.Problem) error { return fmt.Errorf("%v", p) },
	})
	if err != nil || totals.Examples != 700 || totals.Pairs != 3500 {
		t.Errorf("totals %+v, %v; want 700 examples of 3,500 pairs", totals, err)
	}
}
