//go:build cgo

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// publishedList is a list as a data set publishes it: @ stands for the address of a row's picture, # for its caption.
type publishedList struct {
	file    string
	names   []string // nil: the file has no line of names
	row     []any
	args    []string
	columns []string // whose values the pairs have
}

// publishedLists has the columns of well-known data sets.
var publishedLists = map[string]publishedList{
	"LAION":                 {"laion.parquet", []string{"SAMPLE_ID", "URL", "TEXT", "HEIGHT", "WIDTH", "LICENSE", "NSFW", "similarity"}, []any{int64(1), "@", "#", int64(40), int64(41), "?", "UNLIKELY", 0.3}, nil, []string{"WIDTH", "similarity"}},
	"Re-LAION":              {"relaion.parquet", []string{"url", "caption", "similarity", "hash", "key"}, []any{"@", "#", 0.3, int64(7), "1"}, nil, []string{"hash"}},
	"COYO":                  {"coyo.parquet", []string{"id", "url", "text", "width", "image_phash", "clip_similarity_vitb32"}, []any{int64(1), "@", "#", int64(40), "f0", 0.2}, nil, []string{"image_phash"}},
	"DataComp":              {"datacomp.parquet", []string{"uid", "url", "text", "original_width", "clip_l14_similarity_score"}, []any{"u", "@", "#", int64(40), 0.2}, nil, []string{"uid"}},
	"CC3M":                  {"Train_GCC-training.tsv", nil, []any{"#", "@"}, []string{"--url-col=2", "--caption-col=1"}, nil},
	"CC12M":                 {"cc12m.tsv", nil, []any{"@", "#"}, []string{"--url-col=1", "--caption-col=2"}, nil},
	"CC12M at Hugging Face": {"cc12m.parquet", []string{"image_url", "caption"}, []any{"@", "#"}, nil, nil},
	"WIT":                   {"wit.tsv", []string{"language", "page_url", "image_url", "page_title", "caption_reference_description", "mime_type"}, []any{"en", "https://example.org", "@", "a \"page\"", "#", "image/png"}, nil, []string{"language", "page_title"}},
	"RedCaps":               {"redcaps.jsonl", []string{"image_id", "author", "image_url", "raw_caption", "subreddit", "score"}, []any{"i", "a", "@", "#", "cats", int64(7)}, nil, []string{"score"}},
	"SBU":                   {"sbu.csv", []string{"image_url", "user_id", "caption"}, []any{"@", "u, v", "#"}, nil, []string{"user_id"}},
}

// startPictures serves pictures to a crawl. The last letter of an address says which one.
func startPictures(t *testing.T) *httptest.Server {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(picture(t, r.URL.Path[len(r.URL.Path)-1])))
	}))
	t.Cleanup(web.Close)
	return web
}

// fetch runs the README's command on the list.
func (l publishedList) fetch(t *testing.T, web *httptest.Server, out string, captions []string) (printed string, err error) {
	t.Helper()
	list := filepath.Join(t.TempDir(), l.file)
	must.Do(t, os.WriteFile(list, l.encode(t, web.URL, captions), 0o600))
	return command(t, append([]string{"fetch", list, "--out", out, "--allow-loopback", "--host-rate", "1000"}, l.args...)...)
}

// TestPublishedListsAreFetched runs the README's fetch on lists with the columns of well-known data sets.
func TestPublishedListsAreFetched(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", "")
	web := startPictures(t)
	for name, l := range publishedLists {
		out := filepath.Join(t.TempDir(), "out")
		captions := []string{`"Best of" the year`, `an unclosed "quote`, "plain"}
		printed, err := l.fetch(t, web, out, captions)
		if err != nil || !strings.Contains(printed, "fetched 3 images of 3 rows") {
			t.Errorf("%s: %v, printed %s", name, err, printed)
			continue
		}
		var got []string
		must.Get(shard.Scan(t.Context(), []string{out}, shard.Visitor{
			Example: func(ex shard.Example) error {
				p := shard.Pairs(ex)[0]
				got = append(got, p.Caption)
				for i, column := range l.names {
					if wanted := reflect.DeepEqual(p.Meta[column], l.row[i]); !wanted && strings.Contains(strings.Join(l.columns, " "), column) {
						t.Errorf("%s: %s is %v, want %v", name, column, p.Meta[column], l.row[i])
					}
				}
				if want := fmt.Sprintf("%s/%d", web.URL, len(got)-1); p.Source != want {
					t.Errorf("%s: the source is %s, want %s", name, p.Source, want)
				}
				return nil
			},
			Problem: func(p shard.Problem) error { t.Errorf("%s: %v", name, p); return nil },
		}))(t)
		if !reflect.DeepEqual(got, captions) {
			t.Errorf("%s: captions %q, want %q", name, got, captions)
		}
	}
}

// TestPublishedListsArePlanned runs the README's batches on what fetch makes of all these lists, and on a data set of
// Hugging Face.
func TestPublishedListsArePlanned(t *testing.T) {
	if apart(t) {
		return
	}
	in := setUpPipeline(t, 4)
	t.Setenv("KAFKA_BROKERS", "")
	t.Setenv("EPOCHS", "1")
	web := startPictures(t)
	args := []string{"batches", "--out", in("plan"), "--weights", in("w.safetensors")}
	for name, l := range publishedLists {
		out := in(strings.ReplaceAll(name, " ", "-"))
		must.Get(l.fetch(t, web, out, []string{"a cat of " + name, `a "dog" of ` + name, "a bird of " + name}))(t)
		args = append(args, out)
	}
	mustCommand(t, args...)
	checkPlan(t, in("plan"))
	if m := readManifest(t, in("plan")); m.Pairs != 3*len(publishedLists) || len(m.Sources) != len(publishedLists) {
		t.Errorf("a plan of %d pairs of %q, want three of each list", m.Pairs, m.Sources)
	}

	type cell struct {
		Bytes []byte `parquet:"bytes"`
		Path  string `parquet:"path"`
	}
	type row struct {
		Image cell   `parquet:"image"`
		Text  string `parquet:"text"`
		Label int64  `parquet:"label"`
	}
	var rows []row
	for i := range byte(8) {
		rows = append(rows, row{cell{[]byte(picture(t, i)), fmt.Sprintf("%d.png", i)}, fmt.Sprintf("thing %d", i), int64(i)})
	}
	must.Do(t, os.Mkdir(in("hf"), 0o700))
	must.Do(t, parquet.WriteFile(in("hf/train-00000-of-00001.parquet"), rows))
	args = []string{"batches", in("hf"), "--out", in("hf-plan"), "--weights", in("w.safetensors")}
	if _, err := command(t, args...); err == nil || !strings.Contains(err.Error(), "--caption-col") || !strings.Contains(err.Error(), `"text"`) {
		t.Errorf("without the column of captions: %v", err)
	}
	mustCommand(t, append(args, "--caption-col", "text")...)
	if m := readManifest(t, in("hf-plan")); m.Pairs != len(rows) {
		t.Errorf("a plan of %d pairs, want %d", m.Pairs, len(rows))
	}
}

// encode returns the file of a list.
func (l publishedList) encode(t *testing.T, web string, captions []string) []byte {
	t.Helper()
	var rows [][]any
	for i, caption := range captions {
		row := append([]any{}, l.row...)
		for k, v := range row {
			switch v {
			case "@":
				row[k] = fmt.Sprintf("%s/%d", web, i)
			case "#":
				row[k] = caption
			}
		}
		rows = append(rows, row)
	}
	var out bytes.Buffer
	switch filepath.Ext(l.file) {
	case ".parquet":
		group, values := parquet.Group{}, []any{}
		for k, name := range l.names {
			switch l.row[k].(type) {
			case string:
				group[name] = parquet.Optional(parquet.String())
			case int64:
				group[name] = parquet.Optional(parquet.Int(64))
			default:
				group[name] = parquet.Optional(parquet.Leaf(parquet.DoubleType))
			}
		}
		for _, row := range rows {
			values = append(values, l.object(row))
		}
		must.Do(t, parquet.Write(&out, values, parquet.NewSchema("list", group)))
	case ".jsonl":
		for _, row := range rows {
			must.Do(t, json.NewEncoder(&out).Encode(l.object(row)))
		}
	case ".tsv":
		if l.names != nil {
			fmt.Fprintln(&out, strings.Join(l.names, "\t"))
		}
		for _, row := range rows {
			fmt.Fprintln(&out, strings.Join(texts(row), "\t"))
		}
	default:
		w := csv.NewWriter(&out)
		must.Do(t, w.Write(l.names))
		for _, row := range rows {
			must.Do(t, w.Write(texts(row)))
		}
		w.Flush()
	}
	return out.Bytes()
}

func (l publishedList) object(row []any) map[string]any {
	members := map[string]any{}
	for k, name := range l.names {
		members[name] = row[k]
	}
	return members
}

func texts(row []any) (out []string) {
	for _, v := range row {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// TestFetchRefusesAListBeforeItDownloads: a list without its columns leaves no tar behind, and the right columns may
// follow.
func TestFetchRefusesAListBeforeItDownloads(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", "")
	t.Setenv("http_proxy", "http://user:secret@proxy.example.org:3128")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(picture(t, 1))) }))
	defer web.Close()
	list, out := filepath.Join(t.TempDir(), "list.csv"), filepath.Join(t.TempDir(), "out")
	must.Do(t, os.WriteFile(list, []byte("link,words\n"+web.URL+"/1,a cat\n"), 0o600))
	args := []string{"fetch", list, "--out", out, "--allow-loopback", "--ignore-robots"}
	_, err := command(t, args...)
	if err == nil || !strings.Contains(err.Error(), "--url-col") || !strings.Contains(err.Error(), `"link", "words"`) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the folder of the tars is there")
	}
	var said bytes.Buffer
	cmd := newFetchCommand()
	cmd.SetErr(&said)
	cmd.SetOut(&said)
	cmd.SetArgs(append(args[1:], "--url-col=LINK", "--caption-col=words"))
	must.Do(t, cmd.ExecuteContext(t.Context()))
	for _, want := range []string{`"link"`, "http_proxy is set, and is not used: --proxy", "fetched 1 images of 1 rows"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("said %q, want %q in it", said.String(), want)
		}
	}
	if strings.Contains(said.String(), "secret") {
		t.Errorf("said %q", said.String())
	}
}
