package dataset_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/dataset"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// crawl writes a folder of three tars. They have 30 good images of three captions each, and one of these images has an
// empty caption as well. They also have a file that is not an image, a caption without image, and at the end a tar cut
// in its last image.
func crawl(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for n := range 3 {
		var buf bytes.Buffer
		w := shard.NewWriter(&buf)
		add := func(key string, files ...shard.File) {
			must.Get(w.Write(key, files...))(t)
		}
		for i := range 10 {
			k := 10*n + i
			add(fmt.Sprintf("%03d", k),
				shard.File{Ext: "png", Data: picture(t, k)},
				shard.File{Ext: "json", Data: fmt.Appendf(nil, `{"captions":["a %d","b %d","c %d"%s]}`, k, k, k, map[bool]string{true: `,""`}[k == 17])})
		}
		add(fmt.Sprintf("bad%d", n), shard.File{Ext: "jpg", Data: []byte("<html>")}, shard.File{Ext: "txt", Data: fmt.Appendf(nil, "no image %d", n)})
		add(fmt.Sprintf("lone%d", n), shard.File{Ext: "txt", Data: fmt.Appendf(nil, "alone %d", n)})
		add(fmt.Sprintf("last%d", n), shard.File{Ext: "txt", Data: []byte("cut")}, shard.File{Ext: "png", Data: bytes.Repeat([]byte{7}, 5000)})
		must.Do(t, w.Close())
		raw := buf.Bytes()
		if n == 2 {
			raw = raw[:len(raw)-1024-4000]
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.tar", n)), raw, 0o600))
	}
	return dir
}

func picture(t testing.TB, n int) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	m.Pix[0], m.Pix[1] = byte(n), byte(n>>8)
	var buf bytes.Buffer
	must.Do(t, png.Encode(&buf, m))
	return buf.Bytes()
}

func run(t testing.TB, dir string, o dataset.ProduceOptions) (dataset.Summary, []shard.Example, []dataset.Message) {
	t.Helper()
	l := newLedger(o.Lanes)
	sum, held := must.Get2(dataset.Produce(context.Background(), []string{dir}, o, l))(t)
	return sum, held, l.sent
}

func TestRunAddsUp(t *testing.T) {
	dir := crawl(t)
	for _, o := range []dataset.ProduceOptions{{Lanes: 1}, {Lanes: 4, Final: true}, {Lanes: 2, HeldOut: 5, Final: true}} {
		sum, held, got := run(t, dir, o)
		wantSeals := 0
		if o.Final {
			wantSeals = o.Lanes
		}
		// There are 90 captions of images, 3 of files that are not images, and 2 of the last images that are whole. The
		// problems are an empty caption, 3 captions alone and the cut image.
		want := dataset.Summary{
			Scan: sum.Scan, PerLane: sum.PerLane, Pairs: 95 - 3*o.HeldOut, Problems: 5, Seals: wantSeals,
			Messages: 100 - 3*o.HeldOut + wantSeals, HeldOutImages: o.HeldOut, HeldOutPairs: 3 * o.HeldOut,
		}
		if !reflect.DeepEqual(sum, want) {
			t.Errorf("%+v:\n got %+v\nwant %+v", o, sum, want)
		}
		valid, refused, seals := 0, 0, 0
		perLane := make([]int, o.Lanes)
		for _, m := range got {
			perLane[m.Lane]++
			record, err := schemas.Unmarshal(m.Schema, m.Value)
			switch r := record.(type) {
			case *schemas.Pair:
				valid++
				if r.ImageID.Lane(o.Lanes) != m.Lane {
					t.Errorf("pair %s went to lane %d", r.ID, m.Lane)
				}
				for _, ex := range held {
					if ex.ImageID == r.ImageID {
						t.Errorf("image %s is held out and published", ex.ImageID)
					}
				}
			case *schemas.Seal:
				seals++
				if !r.Final {
					t.Error("a seal that is not final")
				}
			default:
				refused++
				if !errors.Is(err, schemas.ErrInvalid) {
					t.Errorf("%q: %v", m.Value, err)
				}
			}
		}
		// The cut image decodes as a pair and is refused when it is read.
		if valid != sum.Pairs+1 || refused != sum.Problems-1 || seals != wantSeals || !reflect.DeepEqual(perLane, sum.PerLane) {
			t.Errorf("%+v: %d pairs, %d refused, %d seals, lanes %v; summary %+v", o, valid, refused, seals, perLane, sum)
		}
		if len(held) != o.HeldOut {
			t.Errorf("%d examples held out, want %d", len(held), o.HeldOut)
		}
	}
}

func TestRunHoldsOutReadableImagesOnly(t *testing.T) {
	dir := crawl(t)
	_, held, _ := run(t, dir, dataset.ProduceOptions{Lanes: 1, HeldOut: 29})
	if len(held) != 29 {
		t.Fatalf("%d held out", len(held))
	}
	for _, ex := range held {
		if ex.Key == "bad0" || ex.Key == "last0" || len(ex.Captions) != 3 || ex.Encoded != nil {
			t.Errorf("held out %+v", ex)
		}
	}
	_, _, err := dataset.Produce(context.Background(), []string{dir}, dataset.ProduceOptions{Lanes: 1, HeldOut: 35}, newLedger(1))
	if err == nil || !strings.Contains(err.Error(), "35") {
		t.Errorf("holding out more images than there are: %v", err)
	}
}

func TestRunGivesTheSameTwice(t *testing.T) {
	dir := crawl(t)
	o := dataset.ProduceOptions{Lanes: 3, HeldOut: 4, Final: true}
	_, _, a := run(t, dir, o)
	_, _, b := run(t, dir, o)
	if !reflect.DeepEqual(a, b) {
		t.Error("two runs over the same tars gave other messages")
	}
}

func TestRunStops(t *testing.T) {
	dir := crawl(t)
	l := newLedger(1)
	l.die = 50
	_, _, err := dataset.Produce(context.Background(), []string{dir}, dataset.ProduceOptions{Lanes: 1}, l)
	if !errors.Is(err, errDead) || l.calls != 51 {
		t.Errorf("%v after %d calls", err, l.calls)
	}
	for name, o := range map[string]dataset.ProduceOptions{"lanes": {}, "images": {Lanes: 1, HeldOut: 1000}} {
		if _, _, err := dataset.Produce(context.Background(), []string{dir}, o, newLedger(1)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, _, err := dataset.Produce(context.Background(), []string{filepath.Join(dir, "none")}, dataset.ProduceOptions{Lanes: 1}, newLedger(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// TestRunOfAnUnsafeTar publishes nothing readable out of links and absolute names.
func TestRunOfAnUnsafeTar(t *testing.T) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []tar.Header{
		{Name: "a.jpg", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "/b.jpg", Typeflag: tar.TypeReg},
		{Name: "../c.jpg", Typeflag: tar.TypeReg},
	} {
		must.Do(t, w.WriteHeader(&h))
	}
	must.Do(t, w.Close())
	path := filepath.Join(t.TempDir(), "x.tar")
	must.Do(t, os.WriteFile(path, buf.Bytes(), 0o600))
	sum, _, got := run(t, path, dataset.ProduceOptions{Lanes: 2})
	if sum.Problems != 3 || len(got) != 3 {
		t.Errorf("%d messages, %+v", len(got), sum)
	}
	for _, m := range got {
		if _, err := schemas.Unmarshal(m.Schema, m.Value); !errors.Is(err, schemas.ErrInvalid) {
			t.Errorf("%q: %v", m.Value, err)
		}
	}
}

// When no tar can be read, the command fails, and the log says why, as its error promises.
func TestProblemsOfUnreadableTarsArePublished(t *testing.T) {
	tar := filepath.Join(t.TempDir(), "sealed.tar")
	if err := os.Symlink("/proc/sys/vm/compact_memory", tar); err != nil { // a file that not even root may read
		t.Fatal(err)
	}
	l := newLedger(2)
	_, _, err := dataset.Produce(t.Context(), []string{tar}, dataset.ProduceOptions{Lanes: 2, Final: true}, l)
	if err == nil || !strings.Contains(err.Error(), "none of 1 tars can be read") {
		t.Errorf("error %v, want one that says so", err)
	}
	if len(l.sent) != 1 || l.sent[0].Schema == schemas.SchemaSeal {
		t.Errorf("%d messages, want the one problem and no seal", len(l.sent))
	}
}
