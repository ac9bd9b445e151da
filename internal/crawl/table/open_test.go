package table_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// writeList writes a list of one file.
func writeList(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, text, 0o600))
	return path
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	must.Get(w.Write([]byte(text)))(t)
	must.Do(t, w.Close())
	return buf.Bytes()
}

// texts returns the addresses and captions of a list; "-" is a row that cannot be read.
func texts(t *testing.T, l *table.List) (out []string) {
	t.Helper()
	must.Do(t, l.Read(t.Context(), func(r table.Row) error {
		if r == nil {
			out = append(out, "-")
			return nil
		}
		out = append(out, r.Text(l.URL)+" "+r.Text(l.Caption))
		return nil
	}))
	return out
}

const bom = "\xef\xbb\xbf"

// TestOpenFindsThePublishedColumns opens lists with the columns under which data sets are published.
func TestOpenFindsThePublishedColumns(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       table.Columns // asked for
		found      table.Columns
		rows       []string
	}{
		"LAION":             {"a.csv", "SAMPLE_ID,URL,TEXT,HEIGHT\n1,u,t,3\n", table.Columns{}, table.Columns{URL: "URL", Caption: "TEXT"}, []string{"u t"}},
		"COYO":              {"a.csv", "id,url,text,width\n1,u,t,3\n", table.Columns{}, table.Columns{URL: "url", Caption: "text"}, []string{"u t"}},
		"DataComp":          {"a.csv", "uid,url,text,original_width\n1,u,t,3\n", table.Columns{}, table.Columns{URL: "url", Caption: "text"}, []string{"u t"}},
		"CC3M":              {"a.tsv", "t\thttps://u\nt2\thttps://u2\n", table.Columns{URL: "2", Caption: "1"}, table.Columns{URL: "2", Caption: "1"}, []string{"https://u t", "https://u2 t2"}},
		"CC12M":             {"a.tsv", "https://u\tt\r\nhttps://u2\tt2\r\n", table.Columns{URL: "1", Caption: "2"}, table.Columns{URL: "1", Caption: "2"}, []string{"https://u t", "https://u2 t2"}},
		"CC12M with names":  {"a.csv", "image_url,caption\nu,t\n", table.Columns{}, table.Columns{URL: "image_url", Caption: "caption"}, []string{"u t"}},
		"WIT":               {"a.tsv", "language\tpage_url\timage_url\tpage_title\tcaption_reference_description\nen\tp\tu\tx\tt\n", table.Columns{}, table.Columns{URL: "image_url", Caption: "caption_reference_description"}, []string{"u t"}},
		"RedCaps":           {"a.jsonl", `{"image_id":"1","image_url":"u","raw_caption":"t","score":3}`, table.Columns{}, table.Columns{URL: "image_url", Caption: "raw_caption"}, []string{"u t"}},
		"mixed letters":     {"a.csv", " Image_URL , Caption \nu,t\n", table.Columns{}, table.Columns{URL: "Image_URL", Caption: "Caption"}, []string{"u t"}},
		"asked in letters":  {"a.csv", "URL,alt\nu,t\n", table.Columns{URL: "url", Caption: "ALT"}, table.Columns{URL: "URL", Caption: "alt"}, []string{"u t"}},
		"the very name":     {"a.csv", "URL,url,Text,text\n1,u,2,t\n", table.Columns{URL: "url", Caption: "text"}, table.Columns{URL: "url", Caption: "text"}, []string{"u t"}},
		"a number as name":  {"a.csv", "1,2\nu,t\n", table.Columns{URL: "1", Caption: "2"}, table.Columns{URL: "1", Caption: "2"}, []string{"u t"}},
		"a mark of CSV":     {"a.csv", bom + "url,caption\nu,t\n", table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{"u t"}},
		"a mark and quotes": {"a.csv", bom + "\"url\",\"caption\"\r\n\"u\",\"t, and\"\r\n", table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{"u t, and"}},
		"a mark of TSV":     {"a.tsv", bom + "caption\turl\nt\tu\n", table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{"u t"}},
		"a mark of JSON":    {"a.jsonl", bom + `{"url":"u","caption":"t"}` + "\n" + `{"url":"u2","caption":"t2"}`, table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{"u t", "u2 t2"}},
		"no numbers":        {"a.jsonl", `{"url":"u","caption":"t NaN","a":NaN,"b":[Infinity,{"c":-Infinity}],"d":"\"NaN"}`, table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{"u t NaN"}},
		"quotes of TSV":     {"a.tsv", "url\tcaption\nu\t\"an open one\nu2\t\"two\" words\nu3\tt\n", table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{"u \"an open one", "u2 \"two\" words", "u3 t"}},
		"empty fields":      {"a.tsv", "url\tcaption\n\t\nu\tt\n", table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{" ", "u t"}},
		"rows of one field": {"a.tsv", "url\tcaption\nu\nu2\tt\tmore\n", table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{"u ", "u2 t"}},
		"a late caption":    {"a.jsonl", strings.Repeat(`{"url":"u","caption":null}`+"\n", 300) + `{"url":"u","caption":"t"}`, table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, append(slices300("u "), "u t")},
		"compressed":        {"a.tsv.gz", string(gzipped(t, "caption\turl\nt\tu\n")), table.Columns{}, table.Columns{URL: "url", Caption: "caption"}, []string{"u t"}},
		"nothing":           {"a.csv", "", table.Columns{}, table.Columns{}, nil},
		"no line":           {"a.jsonl", "\n", table.Columns{}, table.Columns{}, nil},
	} {
		l, err := table.Open(t.Context(), writeList(t, c.file, []byte(c.text)), c.want)
		if err != nil || l.Columns != c.found {
			t.Errorf("%s: %v, error %v, want %v", name, l, err, c.found)
			continue
		}
		if got := texts(t, l); !reflect.DeepEqual(got, c.rows) {
			t.Errorf("%s: rows %q, want %q", name, got, c.rows)
		}
	}
}

func slices300(text string) (out []string) {
	for range 300 {
		out = append(out, text)
	}
	return out
}

// TestOpenRefusesAListWithoutItsColumns opens lists that lack a column. The error names the options, and the columns
// that are there.
func TestOpenRefusesAListWithoutItsColumns(t *testing.T) {
	type row struct {
		URL      string   `parquet:"url"`
		Captions []string `parquet:"caption,list"`
		Text     int64    `parquet:"text"`
	}
	var lists bytes.Buffer
	must.Do(t, parquet.Write(&lists, []row{{URL: "u"}}))
	for name, c := range map[string]struct {
		file string
		text []byte
		want table.Columns
		said []string
	}{
		"no addresses":       {"a.csv", []byte("uid,text\n1,t\n"), table.Columns{}, []string{"--url-col", `"uid", "text"`}},
		"no captions":        {"a.tsv", []byte("url\twords\nu\tt\n"), table.Columns{}, []string{"--caption-col", `"url", "words"`}},
		"no such column":     {"a.csv", []byte("url,text\nu,t\n"), table.Columns{Caption: "alt"}, []string{"--caption-col", `"alt"`, `"url", "text"`}},
		"no names":           {"a.tsv", []byte("t\thttps://u\n"), table.Columns{}, []string{"--url-col=2", "--caption-col=1"}},
		"no names, asked":    {"a.tsv", []byte("HTTP://u\tt\n"), table.Columns{URL: "url", Caption: "caption"}, []string{"--url-col=1", "--caption-col=2"}},
		"too large a number": {"a.tsv", []byte("t\thttps://u\n"), table.Columns{URL: "3", Caption: "1"}, []string{"--url-col=2"}},
		"lists of Parquet":   {"a.parquet", lists.Bytes(), table.Columns{}, []string{"--caption-col", `"caption" (lists)`, `"text" (INT`}},
		"lists, asked":       {"a.parquet", lists.Bytes(), table.Columns{Caption: "caption"}, []string{"--caption-col", "holds lists"}},
		"lists of JSON":      {"a.jsonl", []byte(`{"url":"u","caption":["a","b"]}`), table.Columns{Caption: "Caption"}, []string{"--caption-col", "holds lists"}},
		"numbers of JSON":    {"a.jsonl", []byte(`{"url":"u","caption":7}`), table.Columns{}, []string{"--caption-col", `"caption" (numbers)`}},
		"never a caption":    {"a.jsonl", []byte(strings.Repeat(`{"url":"u","caption":null}`+"\n", 300)), table.Columns{}, []string{"--caption-col", "null"}},
		"no objects":         {"a.jsonl", []byte("[1]\n"), table.Columns{}, []string{"--url-col", "none"}},
		"UTF-16":             {"a.csv", []byte("\xff\xfeu\x00"), table.Columns{}, []string{"UTF-16"}},
		"another kind":       {"a.json", []byte("{}"), table.Columns{}, []string{".jsonl"}},
		"Parquet in gzip":    {"a.parquet.gz", nil, table.Columns{}, []string{".jsonl"}},
		"no gzip":            {"a.csv.gz", []byte("url,caption\n"), table.Columns{}, []string{"gzip"}},
		"a hostile name":     {"a.csv", []byte("a\x1b[31m,b\n"), table.Columns{}, []string{`"a\x1b[31m"`}},
	} {
		_, err := table.Open(t.Context(), writeList(t, c.file, c.text), c.want)
		for _, said := range c.said {
			if err == nil || !strings.Contains(err.Error(), said) {
				t.Errorf("%s: error %v, want one with %q", name, err, said)
			}
		}
	}
}

// TestOpenRemembersFewNames opens JSON lines whose every row has other names: a part of them is remembered.
func TestOpenRemembersFewNames(t *testing.T) {
	var text strings.Builder
	fmt.Fprintf(&text, "{%q:1}\n", strings.Repeat("n", 100_000))
	for i := range 5000 {
		fmt.Fprintf(&text, "{\"%d\":\"t\"}\n", i)
	}
	_, err := table.Open(t.Context(), writeList(t, "a.jsonl", []byte(text.String())), table.Columns{})
	if err == nil || !strings.Contains(err.Error(), "and 4056 more") || strings.Contains(err.Error(), "nnn") || len(err.Error()) > 2000 {
		t.Errorf("error %.300v, want one of 4096 columns", err)
	}
}

// TestOpenReadsAFolderOfParts reads the parts of a list in the order of their names, and refuses parts of other
// columns.
func TestOpenReadsAFolderOfParts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	if _, err := table.Open(t.Context(), dir, table.Columns{}); err == nil || !strings.Contains(err.Error(), "no list") {
		t.Errorf("an empty folder: %v", err)
	}
	write("b.tsv", "caption\turl\nt2\tu2\n")
	write("a.jsonl", `{"url":"u","caption":"t"}`)
	write(".a.jsonl", "no list")
	write("readme.md", "no list")
	l := must.Get(table.Open(t.Context(), dir, table.Columns{}))(t)
	if got := texts(t, l); !reflect.DeepEqual(got, []string{"u t", "u2 t2"}) {
		t.Errorf("rows %q", got)
	}
	write("c.csv", "URL,TEXT\nu,t\n")
	if _, err := table.Open(t.Context(), dir, table.Columns{}); err == nil || !strings.Contains(err.Error(), "c.csv") || !strings.Contains(err.Error(), `"TEXT"`) {
		t.Errorf("parts of other columns: %v", err)
	}
}

// TestPlainJSON reads JSON as programs write it.
func TestPlainJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": NaN, "b": [Infinity, -Infinity,NaN]}`: `{"a": null, "b": [null, null,null]}`,
		bom + `{"a": 1}`:                        `{"a": 1}`,
		`{"NaN": "Infinity \" NaN \\", "b":-1}`: `{"NaN": "Infinity \" NaN \\", "b":-1}`,
		`NaN`:                                   `null`,
		`{"a": "NaN`:                            `{"a": "NaN`,
		`{"a": "\`:                              `{"a": "\`,
		`Na`:                                    `Na`,
		`[-`:                                    `[-`,
		``:                                      ``,
	} {
		if got := string(table.PlainJSON([]byte(in))); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
