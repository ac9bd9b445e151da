package shard_test

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// crawled is a row of the table that img2dataset writes beside a tar, with columns that it took over from the list.
type crawled struct {
	URL            string   `parquet:"url"`
	Caption        *string  `parquet:"caption"`
	Similarity     *float64 `parquet:"similarity"`
	Punsafe        float32  `parquet:"punsafe"`
	Pwatermark     float64  `parquet:"pwatermark"`
	Key            string   `parquet:"key"`
	Status         string   `parquet:"status"`
	Error          *string  `parquet:"error_message"`
	Width          *int32   `parquet:"width"`
	Height         *int32   `parquet:"height"`
	OriginalWidth  *int64   `parquet:"original_width"`
	OriginalHeight *int64   `parquet:"original_height"`
	Exif           *string  `parquet:"exif"`
	SHA256         *string  `parquet:"sha256"`
	Tags           []string `parquet:"tags"`
}

func writeTable(t *testing.T, rows []crawled) []byte {
	t.Helper()
	var buf bytes.Buffer
	must.Do(t, parquet.Write(&buf, rows, parquet.Compression(&parquet.Snappy)))
	return buf.Bytes()
}

// TestSidecar holds that the .parquet beside a tar adds columns, captions and addresses, and that its status counts.
func TestSidecar(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir, "00000.tar", buildTar(t,
		member{name: "000000000.jpg", data: picture(t, 1)}, member{name: "000000000.txt", data: "one"},
		member{name: "000000000.json", data: `{"url":"http://json/","width":7,"tag":"x"}`},
		member{name: "000000001.jpg", data: picture(t, 2)},
		member{name: "000000002.jpg", data: picture(t, 3)}, member{name: "000000002.txt", data: "three"},
		member{name: "000000003.jpg", data: picture(t, 4)}, member{name: "000000003.txt", data: "four"},
		member{name: "000000004.jpg", data: picture(t, 5)}, member{name: "000000004.txt", data: "five"}, member{name: "000000004.json", data: `{"status":"failed_to_resize"}`},
	))
	writeFile(t, dir, "00000.parquet", writeTable(t, []crawled{
		{URL: "http://a/", Caption: new("ONE"), Similarity: new(0.25), Punsafe: 0.5, Key: "000000000", Status: "success", Width: new(int32(9)), Height: new(int32(8)), OriginalWidth: new(int64(1 << 40)), SHA256: new("00ff"), Tags: []string{"a", "b"}},
		{URL: "http://b/", Caption: new(" two "), Key: "000000001", Status: "success"},
		{URL: "http://c/", Key: "000000002", Status: "failed_to_download", Error: new("404")},
		{URL: "http://e/", Key: "000000004", Status: "success"},
		{URL: "http://f/", Caption: new("no image"), Key: "000000009", Status: "failed_to_download"},
	}))
	var got []*schemas.Pair
	totals, err := shard.Scan(t.Context(), []string{dir}, shard.Visitor{
		Example: func(ex shard.Example) error { got = append(got, shard.Pairs(ex)...); return nil },
		Problem: func(p shard.Problem) error { wantRefused(t, p); return nil },
	})
	if err != nil || !reflect.DeepEqual(totals.Problems, map[shard.Reason]int{shard.ReasonStatus: 2}) || len(got) != 3 {
		t.Fatalf("%d pairs, totals %+v, %v", len(got), totals, err)
	}
	for i, want := range []schemas.Pair{
		{Caption: "one", Source: "http://json/", Meta: schemas.Columns{
			"similarity": 0.25, "punsafe": 0.5, "pwatermark": 0.0, "status": "success", "width": int64(7), "height": int64(8), "original_width": int64(1 << 40), "sha256": "00ff", "tag": "x",
		}},
		{Caption: "two", Source: "http://b/", Meta: schemas.Columns{"punsafe": 0.0, "pwatermark": 0.0, "status": "success"}},
		{Caption: "four", Source: "00000.tar#000000003"},
	} {
		if p := got[i]; p.Caption != want.Caption || p.Source != want.Source || !reflect.DeepEqual(p.Meta, want.Meta) {
			t.Errorf("pair %d is %+v, want %+v", i, p, want)
		}
		if _, err := schemas.Marshal(got[i]); err != nil {
			t.Error(err)
		}
	}
}

// TestDamagedSidecar: pairs go without columns, and one problem says why.
func TestDamagedSidecar(t *testing.T) {
	whole := writeTable(t, []crawled{{Key: "a", Caption: new("x"), Status: "success"}})
	type other struct{ Name string }
	var noKey bytes.Buffer
	must.Do(t, parquet.Write(&noKey, []other{{"a"}}))
	damaged := map[string][]byte{"no table": []byte("PAR1 or not"), "empty": {}, "cut": whole[:len(whole)/2], "without keys": noKey.Bytes()}
	words := map[string]string{"without keys": `the table has no column "key", as img2dataset writes it`}
	for i := 8; i < len(whole)-8; i += 3 {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 0xff
		damaged["flipped "+string(rune('0'+i%10))] = flipped
	}
	for name, raw := range damaged {
		dir := t.TempDir()
		writeFile(t, dir, "a.tar", buildTar(t, member{name: "a.jpg", data: picture(t, 1)}, member{name: "a.txt", data: "one"}))
		must.Do(t, os.WriteFile(filepath.Join(dir, "a.parquet"), raw, 0o600))
		pairs := 0
		totals, err := shard.Scan(t.Context(), []string{dir}, shard.Visitor{
			Example: func(ex shard.Example) error { pairs++; return nil },
			Problem: func(p shard.Problem) error {
				wantRefused(t, p)
				want := cmp.Or(words[name], "it cannot be read as Parquet")
				if !strings.HasPrefix(name, "flipped") && p.Detail != "the pairs of the tar go without its columns: "+want {
					t.Errorf("%s: %s, want %s", name, p.Detail, want)
				}
				return nil
			},
		})
		if err != nil || !strings.HasPrefix(name, "flipped") && (pairs != 1 || totals.Problems[shard.ReasonSidecar] != 1) {
			t.Errorf("%s: %d pairs, totals %+v, %v", name, pairs, totals, err)
		}
	}
}

// TestSidecarsThatWouldFillTheMemory: a few bytes of Parquet stand for many rows, or for many long texts.
func TestSidecarsThatWouldFillTheMemory(t *testing.T) {
	type row struct {
		Key     string  `parquet:"key,dict"`
		Caption string  `parquet:"caption,dict"`
		Other   *string `parquet:"other,dict"`
	}
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, detail string
		rows         []row
	}{
		{"many rows", "it has more than 262144 rows", slices.Repeat([]row{{Key: "a"}}, 1<<18+1)},
		{"long captions", "its values take more than 268435456 bytes", slices.Repeat([]row{{Key: "a", Caption: long}}, 257)},
		{"long texts that no pair may carry", "", slices.Repeat([]row{{Key: "a", Other: &long}}, 257)},
	} {
		dir := t.TempDir()
		writeFile(t, dir, "a.tar", buildTar(t, member{name: "a.jpg", data: picture(t, 1)}, member{name: "a.txt", data: "one"}))
		var buf bytes.Buffer
		must.Do(t, parquet.Write(&buf, c.rows, parquet.Compression(&parquet.Snappy)))
		writeFile(t, dir, "a.parquet", buf.Bytes())
		pairs, detail := 0, ""
		must.Get(shard.Scan(t.Context(), []string{dir}, shard.Visitor{
			Example: func(ex shard.Example) error { pairs++; return nil },
			Problem: func(p shard.Problem) error { detail += p.Detail; return nil },
		}))(t)
		if pairs != 1 || strings.TrimPrefix(detail, "the pairs of the tar go without its columns: ") != c.detail {
			t.Errorf("%s: %d pairs, problem %q, want %q", c.name, pairs, detail, c.detail)
		}
	}
}
