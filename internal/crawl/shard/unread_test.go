package shard_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestScanPassesGlobalHeaders reads tars with global pax headers, as git archive writes one: everything behind it is
// found. Records of every length end within their block.
func TestScanPassesGlobalHeaders(t *testing.T) {
	for _, length := range []int{1, 40, 400, 501, 502, 503, 1000, 5000} {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		global := func() {
			must.Do(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": strings.Repeat("c", length)}}))
		}
		file := func(name, data string) {
			must.Do(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o600, Typeflag: tar.TypeReg}))
			must.Get(w.Write([]byte(data)))(t)
		}
		global()
		file("a.png", picture(t, 1))
		global()
		global()
		file("a.txt", "first")
		file("b.png", picture(t, 2))
		file("b.txt", "second")
		global()
		must.Do(t, w.Close())
		if f := scan(t, buf.Bytes()); f.captions() != "a: first, b: second" && f.captions() != "a: first; b: second" || f.reasons() != "" {
			t.Errorf("comments of %d: examples %q, problems %v", length, f.captions(), f.problems)
		}
		damaged := bytes.Clone(buf.Bytes())
		copy(damaged[len(damaged)-1024-1024:], bytes.Repeat([]byte{7}, 512)) // the last global header
		if f := scan(t, damaged); len(f.examples) != 2 {
			t.Errorf("comments of %d, and a damaged header: %d examples", length, len(f.examples))
		}
	}
}

// TestScanReadsTextsAsProgramsWriteThem has byte order marks, and numbers that JSON does not have.
func TestScanReadsTextsAsProgramsWriteThem(t *testing.T) {
	const mark = "\xef\xbb\xbf"
	for name, c := range map[string]struct {
		text, json string
		captions   []string
		meta       any // of w
		reasons    string
	}{
		"a mark before a text":     {mark + "a cat\r\n", "", []string{"a cat"}, nil, ""},
		"a mark before JSON":       {"", mark + `{"caption":"a cat","w":64}`, []string{"a cat"}, int64(64), ""},
		"one caption, two writers": {mark + "a cat\r\n", mark + `{"caption":"a cat"}`, []string{"a cat"}, nil, ""},
		"a mark alone":             {mark, "", nil, nil, "caption_empty"},
		"no numbers":               {"a cat", `{"a":NaN,"b":[Infinity,{"c":-Infinity}],"w":64,"d":"NaN"}`, []string{"a cat"}, int64(64), ""},
		"no number as a caption":   {"", `{"caption":NaN,"captions":["a cat",NaN]}`, []string{"a cat"}, nil, "caption_json"},
		"no JSON":                  {"a cat", `{"a":nan,"w":64}`, []string{"a cat"}, nil, "caption_json"},
	} {
		members := []member{{name: "a.png", data: picture(t, 1)}}
		if c.text != "" {
			members = append(members, member{name: "a.txt", data: c.text})
		}
		if c.json != "" {
			members = append(members, member{name: "a.json", data: c.json})
		}
		f := scan(t, buildTar(t, members...))
		var captions []string
		var meta any
		for _, ex := range f.examples {
			captions = append(captions, ex.Captions...)
			meta = shard.Pairs(ex)[0].Meta["w"]
		}
		if !reflect.DeepEqual(captions, c.captions) || meta != c.meta || f.reasons() != c.reasons {
			t.Errorf("%s: captions %q, w %v, problems %v", name, captions, meta, f.problems)
		}
	}
}

// TestScanSaysWhatItHasIgnored counts files that are no part of a pair by what to do about them, with the first one's
// name.
func TestScanSaysWhatItHasIgnored(t *testing.T) {
	good := []member{{name: "good.png", data: picture(t, 1)}, {name: "good.txt", data: "a cat"}}
	for name, c := range map[string]struct {
		members []member
		want    shard.Unread
		first   string
		count   int
	}{
		"dots in names":   {append([]member{{name: "photo.v2.001.jpg"}, {name: "photo.v2.001.txt"}}, good...), shard.UnreadDots, "photo.v2.001.jpg", 2},
		"a title":         {append([]member{{name: "x/Dr. Who 1.jpg"}}, good...), shard.UnreadDots, "x/Dr. Who 1.jpg", 1},
		"other formats":   {append([]member{{name: "a.gif"}, {name: "b.AVIF"}, {name: "c.heic"}, {name: "d.jfif"}, {name: "e.x.bmp"}}, good...), shard.UnreadFormat, "a.gif", 5},
		"other files":     {append([]member{{name: "a.cls"}, {name: "._a.jpg"}, {name: "readme"}}, good...), shard.UnreadOther, "a.cls", 3},
		"a tar of nobody": {[]member{{name: "a.cls"}}, shard.UnreadTar, "00000.tar", 1},
		"an empty tar":    {nil, shard.UnreadTar, "00000.tar", 1},
	} {
		got := scan(t, buildTar(t, c.members...)).totals.Unread[c.want]
		if got.Count != c.count || !strings.Contains(got.First, c.first) {
			t.Errorf("%s: %+v, want %d, the first %s", name, got, c.count, c.first)
		}
	}
	var all shard.Totals
	for range 2 {
		all.Add(scan(t, buildTar(t, member{name: "a.b.jpg"})).totals)
	}
	if lines := all.UnreadLines(); len(lines) != 2 || !strings.HasPrefix(lines[0], "2 files were ignored") || !strings.Contains(lines[0], `the first is "a.b.jpg of file:///`) {
		t.Errorf("said %q", lines)
	}
	if f := scan(t, buildTar(t, good...)); f.totals.UnreadLines() != nil {
		t.Errorf("said %q of a good tar", f.totals.UnreadLines())
	}
}

// TestCompressedTarsAreNamed finds compressed tars by their names beside others, and by their bytes.
func TestCompressedTarsAreNamed(t *testing.T) {
	raw := buildTar(t, member{name: "a.png", data: picture(t, 1)}, member{name: "a.txt", data: "a cat"})
	for how, head := range map[string]string{
		"gzip": "\x1f\x8b\x08", "zstd": "\x28\xb5\x2f\xfd", "xz": "\xfd7zXZ\x00", "bzip2": "BZh91AY&SY", "lz4": "\x04\x22\x4d\x18", "zip": "PK\x03\x04",
	} {
		for _, size := range []int{20, 3000} {
			f := scan(t, append([]byte(head), bytes.Repeat([]byte{7}, size)...))
			if len(f.problems) != 1 || !strings.Contains(f.problems[0].Detail, how) || f.totals.Unread[shard.UnreadPacked].Count != 1 {
				t.Errorf("%s of %d bytes: problems %v, %v", how, size, f.problems, f.totals.UnreadLines())
			}
		}
	}
	if f := scan(t, buildTar(t, member{name: "BZh91AY.png", data: picture(t, 1)}, member{name: "BZh91AY.txt", data: "a cat"})); len(f.examples) != 1 {
		t.Errorf("a file called like a compression: %v", f.problems)
	}
	dir := t.TempDir()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	must.Get(z.Write(raw))(t)
	must.Do(t, z.Close())
	for _, name := range []string{"b.tar.gz", "c.TGZ", "sub/d.tar.zst"} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), packed.Bytes(), 0o600))
	}
	if _, err := shard.Tars([]string{dir}); err == nil || !strings.Contains(err.Error(), "b.tar.gz") || !strings.Contains(err.Error(), "compressed") {
		t.Errorf("compressed tars alone: %v", err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "a.tar"), raw, 0o600))
	examples, said := 0, []string{}
	must.Get(shard.Scan(context.Background(), []string{dir}, shard.Visitor{
		Example: func(shard.Example) error { examples++; return nil },
		Problem: func(p shard.Problem) error {
			said = append(said, filepath.Base(p.URI)+" "+string(p.Reason))
			return nil
		},
	}))(t)
	if want := []string{"b.tar.gz file_unreadable", "c.TGZ file_unreadable", "d.tar.zst file_unreadable"}; examples != 1 || !reflect.DeepEqual(said, want) {
		t.Errorf("%d examples, problems %q, want %q", examples, said, want)
	}
}
