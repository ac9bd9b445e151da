package table_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// readList returns the rows of a list.
func readList(t *testing.T, name, text string) (rows []table.Row, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	l := must.Get(table.Open(t.Context(), path, table.Columns{URL: "url", Caption: "url"}))(t)
	err = l.Read(t.Context(), func(r table.Row) error { rows = append(rows, r); return nil })
	return rows, err
}

// TestListsCostTheirRows reads lists with rows that are broken or large. Each of them is nil, and those around it are
// read.
func TestListsCostTheirRows(t *testing.T) {
	good := func(url string) table.Row { return table.Row{"url": url} }
	large, wide := strings.Repeat("x", 1<<20), strings.Repeat(",", 5000)
	var names []string
	for i := range 5000 {
		names = append(names, fmt.Sprintf("%q:1", strconv.Itoa(i)))
	}
	for name, c := range map[string]struct {
		file, text string
		want       []table.Row
		wrong      string
	}{
		"objects":             {"a.jsonl", "{\"url\":\"a\",\"n\":null,\"l\":[1],\"o\":{}}\n\n{\"url\":\"b\"}", []table.Row{good("a"), good("b")}, ""},
		"an array":            {"a.json", "\ufeff[{\"url\":\"a\",\"n\":NaN,\"l\":[1]},\n7, {\"url\":\"b\"}]", []table.Row{good("a"), nil, good("b")}, ""},
		"annotations":         {"a.json", "{\"info\":{\"url\":\"x\"},\"annotations\":[{\"url\":\"a\"}],\"more\":1}", []table.Row{good("a")}, ""},
		"half an object":      {"a.jsonl", "{\"url\":\"a\"}\n{\"url\":\n{\"url\":\"b\"}\n", []table.Row{good("a"), nil, good("b")}, ""},
		"no objects":          {"a.jsonl", "[1]\n7\nnull\n{\"url\":\"b\"}", []table.Row{nil, nil, nil, good("b")}, ""},
		"a long line":         {"a.jsonl", "{\"url\":\"a\"}\n{\"url\":\"" + large + "\"}\n{\"url\":\"b\"}\n", []table.Row{good("a"), nil, good("b")}, ""},
		"a long line at last": {"a.jsonl", "{\"url\":\"a\"}\n{\"url\":\"" + large + "\"}", []table.Row{good("a"), nil}, ""},
		"many members":        {"a.jsonl", "{\"url\":\"a\"}\n{" + strings.Join(names, ",") + "}\n", []table.Row{good("a"), nil}, ""},
		"a quote inside":      {"a.csv", "url\na\na\"b\nb\n", []table.Row{good("a"), nil, good("b")}, ""},
		"text behind a quote": {"a.csv", "url\na\n\"a\"b\nb\n", []table.Row{good("a"), nil, good("b")}, ""},
		"a long row":          {"a.csv", "url\na\n" + large + "\nb\n", []table.Row{good("a"), nil, good("b")}, ""},
		"many columns":        {"a.csv", "url\na\n" + wide + "\nb\n", []table.Row{good("a"), nil, good("b")}, ""},
		"an open quote":       {"a.csv", "url\na\n\"a\nb\n", []table.Row{good("a")}, "quote"},
		"a very long quote":   {"a.csv", "url\na\n\"" + strings.Repeat(large+"\n", 40) + "\"\nb\n", []table.Row{good("a")}, "close its quote"},
		"a long row of TSV":   {"a.tsv", "url\na\n" + large + "\nb\n", []table.Row{good("a"), nil, good("b")}, ""},
		"quotes of TSV":       {"a.tsv", "url\na\"b\nb\n", []table.Row{good("a\"b"), good("b")}, ""},
	} {
		got, err := readList(t, c.file, c.text)
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.wrong)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %d rows, want %d: %.200v", name, len(got), len(c.want), got)
		}
	}
}

// TestShareOfAList reads half of a list's rows. They are counted through all files, and broken ones count.
func TestShareOfAList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.jsonl", "b.jsonl"} {
		var text strings.Builder
		for i := range 100 {
			fmt.Fprintf(&text, "{\"url\":\"%s%d\"}\n{\n", name[:1], i)
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text.String()), 0o600))
	}
	read := func(options string) (urls map[string]bool, broken int) {
		urls = map[string]bool{}
		l := must.Get(table.Open(t.Context(), dir+options, table.Columns{URL: "url", Caption: "url"}))(t)
		must.Do(t, l.Read(t.Context(), func(r table.Row) error {
			if r == nil {
				broken++
				return nil
			}
			urls[r.Text("url")] = true
			return nil
		}))
		return urls, broken
	}
	half, broken := read("?sample=0.5&seed=3")
	if len(half) < 60 || len(half) > 140 || broken < 60 || broken > 140 {
		t.Errorf("half of 200 rows and 200 broken ones is %d and %d", len(half), broken)
	}
	if again, _ := read("?sample=0.5&seed=3"); !reflect.DeepEqual(again, half) {
		t.Error("the same seed drew other rows")
	}
	if other, _ := read("?sample=0.5&seed=4"); reflect.DeepEqual(other, half) {
		t.Error("another seed drew the same rows")
	}
	if _, err := table.Open(t.Context(), dir+"?sample=1e6", table.Columns{}); err == nil || !strings.Contains(err.Error(), "want a share") {
		t.Errorf("a number of rows: %v", err)
	}
}

// A short array that cannot be read is refused before anything is downloaded.
func TestArraysThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"lines":          {"{\"url\":\"a\"}\n{\"url\":\"b\"}", "JSON lines go into .jsonl"},
		"cut":            {"[{\"url\":\"a\"},", "cannot be read after byte 13"},
		"without an end": {"[{\"url\":\"a\"}", "cut at byte 12"},
		"a long element": {"[{\"url\":\"a\"},{\"url\":\"" + strings.Repeat("x", 3<<20) + "\"}]", "too long"},
	} {
		path := filepath.Join(t.TempDir(), "a.json")
		must.Do(t, os.WriteFile(path, []byte(c.text), 0o600))
		if _, err := table.Open(t.Context(), path, table.Columns{URL: "url", Caption: "url"}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
}
