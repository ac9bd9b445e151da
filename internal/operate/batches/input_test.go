package batches

import (
	"bytes"
	"maps"
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
	t.Parallel()
	in, o, environ := setUp(t, 8)
	writeTables(t, in("tables"), in("scenes"))
	tables := o
	tables.Sources, tables.Out, tables.Columns.Caption = []string{in("tables")}, in("tables/plan"), "sentences.raw"
	must.Get(plan(t, tables, environ))(t)
	o.Sources, o.Out = []string{in("tables/plan/images")}, in("tars")
	must.Get(plan(t, o, environ))(t)
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
	m := manifestIn(t, in("tables/plan"))
	if m.Pairs != 24 || !slices.Equal(m.Sources, []string{in("tables")}) {
		t.Errorf("%d pairs of %q", m.Pairs, m.Sources)
	}
	keys := map[string]int{}
	for _, r := range rowsOf(t, in("tables/plan"), m.Files) {
		keys[r.Text("key")]++
	}
	if len(keys) != 8 || keys["000000007"] != 3 {
		t.Errorf("keys are %v, want the numbers of the rows", keys)
	}
	if printed := must.Get(plan(t, tables, environ))(t); !strings.Contains(printed, "complete") {
		t.Errorf("once more: %s", printed)
	}
	half := tables
	half.Sources, half.Out = []string{in("tables") + "?sample=0.5&seed=1"}, in("tables/half")
	must.Get(plan(t, half, environ))(t)
	part := map[string]bool{}
	for _, r := range rowsOf(t, half.Out, manifestIn(t, half.Out).Files) {
		part[r.Text("key")] = keys[r.Text("key")] == 3
	}
	if len(part) == 0 || len(part) == 8 || slices.Contains(slices.Collect(maps.Values(part)), false) {
		t.Errorf("half of the rows are %v", part)
	}
	half.Sources = tables.Sources
	wantError(t, "a plan of half the rows goes on with all of them", "sample=0.5", half, environ)
	for _, c := range []struct {
		name, want, out string
		image           string
		sources         []string
	}{
		{"a plan beside another one reads no tables", "--image-col", "tables/other", "none", []string{in("tables")}},
		{"a plan among tars", "lies in the data", "scenes/plan", "image", []string{in("scenes")}},
		{"tables beside tars", "want one kind", "both", "image", []string{in("tables"), in("scenes")}},
		{"a table in a bucket", "copy them first", "remote", "image", []string{"s3://bucket/a.parquet"}},
	} {
		o.Sources, o.Out, o.Columns.Image = c.sources, in(c.out), c.image
		wantError(t, c.name, c.want, o, environ)
	}
}
