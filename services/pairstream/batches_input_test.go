//go:build cgo

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// tableRow is a row of a data set of Hugging Face.
type tableRow struct {
	Image struct {
		Bytes []byte  `parquet:"bytes"`
		Path  *string `parquet:"path,optional"`
	} `parquet:"image"`
	Sentences []tableSentence `parquet:"sentences,list"`
}

type tableSentence struct {
	Raw    string   `parquet:"raw"`
	Tokens []string `parquet:"tokens,list"`
}

// writeTables writes the examples of tars into two Parquet files.
func writeTables(t *testing.T, dir, tars string) {
	t.Helper()
	var rows []tableRow
	must.Get(shard.Scan(t.Context(), []string{tars}, shard.Visitor{
		Example: func(ex shard.Example) error {
			raw, err := os.ReadFile(strings.TrimPrefix(ex.Image.URI, "file://"))
			var row tableRow
			for _, text := range ex.Captions {
				row.Sentences = append(row.Sentences, tableSentence{text, strings.Fields(text)})
			}
			row.Image.Bytes = raw[ex.Image.Offset : ex.Image.Offset+ex.Image.Size]
			rows = append(rows, row)
			return err
		},
		Problem: func(p shard.Problem) error { t.Errorf("%v", p); return nil },
	}))(t)
	must.Do(t, os.Mkdir(dir, 0o700))
	for name, part := range map[string][]tableRow{"a.parquet": rows[:5], "b.parquet": rows[5:]} {
		must.Do(t, parquet.WriteFile(filepath.Join(dir, name), part))
	}
}

// TestPlanOfParquet makes a plan of Parquet files with images. It is the plan of the tars that it leaves in its folder.
// That may lie beside the files: another run takes its tars for no data.
func TestPlanOfParquet(t *testing.T) {
	if apart(t) {
		return
	}
	in := setUpPipeline(t, 8)
	t.Setenv("GRIT_FEATURES", "encoder")
	t.Setenv("EPOCHS", "1")
	writeTables(t, in("tables"), in("scenes"))
	mustCommand(t, "batches", "--out", in("tables/plan"), in("tables"), "--caption-col", "sentences.raw")
	mustCommand(t, "batches", "--out", in("tars"), in("tables/plan/images"))
	names, err := filepath.Glob(in("tables/plan/epoch-*.parquet"))
	if err != nil || len(names) != 2 {
		t.Fatalf("the plan has %q (%v)", names, err)
	}
	for _, name := range names {
		a := must.Get(os.ReadFile(name))(t)
		if b, err := os.ReadFile(filepath.Join(in("tars"), filepath.Base(name))); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s is another one than that of the tars (%v)", name, err)
		}
	}
	m := readManifest(t, in("tables/plan"))
	if m.Pairs != 24 || !slices.Equal(m.Sources, []string{in("tables")}) {
		t.Errorf("%d pairs of %q", m.Pairs, m.Sources)
	}
	keys := map[string]int{}
	for _, r := range planRows(t, in("tables/plan"), m.Files) {
		keys[r.Text("key")]++
	}
	if len(keys) != 8 || keys["000000007"] != 3 {
		t.Errorf("keys are %v, want the numbers of the rows", keys)
	}
	if printed := mustCommand(t, "batches", "--out", in("tables/plan"), in("tables"), "--caption-col", "sentences.raw"); !strings.Contains(printed, "complete") {
		t.Errorf("once more: %s", printed)
	}
	if _, err := command(t, "batches", "--out", in("tables/other"), in("tables"), "--image-col", "none"); err == nil || !strings.Contains(err.Error(), "--image-col") {
		t.Errorf("a plan beside another one reads no tables: %v", err)
	}
	if _, err := command(t, "batches", "--out", in("scenes/plan"), in("scenes")); err == nil || !strings.Contains(err.Error(), "lies in the data") {
		t.Errorf("a plan among tars: %v", err)
	}
	if _, err := command(t, "batches", "--out", in("both"), in("tables"), in("scenes")); err == nil || !strings.Contains(err.Error(), "want one kind") {
		t.Errorf("tables beside tars: %v", err)
	}
	if _, err := command(t, "batches", "--out", in("remote"), "s3://bucket/a.parquet"); err == nil || !strings.Contains(err.Error(), "copy them first") {
		t.Errorf("a table in a bucket: %v", err)
	}
}
