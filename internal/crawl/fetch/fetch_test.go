package fetch_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/fetch"
	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/crawl/table"
	"github.com/pairstream/pairstream/internal/testing/must"
)

func options() fetch.Options {
	return fetch.Options{
		PerShard: 100, Threads: 8, Timeout: 10 * time.Second, MaxBytes: 1 << 16, Redirects: 3,
		PerHost: 8, HostRate: 1e6, UserAgent: "pairstream/1", AllowLoopback: true,
	}
}

// openList opens a list with columns url and caption.
func openList(t testing.TB, path string) *table.List {
	t.Helper()
	return must.Get(table.Open(t.Context(), path, table.Columns{URL: "url", Caption: "caption"}))(t)
}

func encode(t testing.TB, n int) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 8, 8))
	m.Pix[0], m.Pix[1] = byte(n), byte(n>>8)
	var buf bytes.Buffer
	must.Do(t, png.Encode(&buf, m))
	return buf.Bytes()
}

// web is a server of images and of traps. It counts its requests by path.
type web struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func newWeb(t testing.TB) *web {
	t.Helper()
	w := &web{asked: map[string]int{}}
	picture := encode(t, 1)
	send := func(rw http.ResponseWriter, data []byte) {
		if _, err := rw.Write(data); err != nil {
			t.Log(err) // the client may have gone
		}
	}
	mux := http.NewServeMux()
	handle := func(path string, h http.HandlerFunc) { mux.HandleFunc(path, h) }
	handle("/ok/", func(rw http.ResponseWriter, r *http.Request) { send(rw, picture) })
	handle("/robots.txt", func(rw http.ResponseWriter, _ *http.Request) {
		send(rw, []byte("User-agent: *\nDisallow: /private/\nUser-agent: other\nDisallow: /\n"))
	})
	handle("/private/", func(rw http.ResponseWriter, _ *http.Request) { send(rw, picture) })
	handle("/noai", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Robots-Tag", "noarchive, NoImageAI")
		send(rw, picture)
	})
	handle("/noai-others", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("X-Robots-Tag", "otherbot: noai")
		send(rw, picture)
	})
	for path, to := range map[string]string{
		"/to-loopback": "http://127.0.0.2:1/", "/to-localhost": "http://[::1]:1/", "/to-metadata": "http://169.254.169.254/latest/meta-data/",
		"/to-mapped": "http://[::ffff:169.254.169.254]/", "/to-nat64": "http://[64:ff9b::a9fe:a9fe]/", "/to-file": "file:///etc/passwd",
		"/to-ok": "/ok/1", "/to-itself": "/to-itself", "/to-private": "/private/a",
	} {
		handle(path, func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, http.StatusFound) })
	}
	handle("/html", func(rw http.ResponseWriter, _ *http.Request) { send(rw, []byte("<html>")) })
	handle("/empty", func(http.ResponseWriter, *http.Request) {})
	handle("/slow", func(rw http.ResponseWriter, r *http.Request) {
		send(rw, picture[:10])
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	handle("/endless", func(rw http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := rw.Write(picture); err != nil {
				return
			}
		}
	})
	handle("/declares-much", func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Content-Length", "99999999999") })
	handle("/declares-more", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", strconv.Itoa(len(picture)+5))
		send(rw, picture)
	})
	var bomb bytes.Buffer // made before anyone waits for it
	z := gzip.NewWriter(&bomb)
	if _, err := z.Write(make([]byte, 10<<20)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	handle("/bomb", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Encoding", "gzip")
		send(rw, bomb.Bytes())
	})
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked[r.URL.Path]++
		w.mu.Unlock()
		mux.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

// crawl fetches a list and returns the outcome of every URL, by its path.
func crawl(t *testing.T, o fetch.Options, w *web, paths ...string) map[string]string {
	t.Helper()
	var urls []string
	for _, p := range paths {
		if !strings.Contains(p, "://") {
			p = w.URL + p
		}
		urls = append(urls, p)
	}
	out := filepath.Join(t.TempDir(), "out")
	must.Do(t, fetchInto(t, out, o, urls...))
	outcomes := map[string]string{}
	must.Do(t, openList(t, filepath.Join(out, "00000.parquet")).Read(t.Context(), func(r table.Row) error {
		outcome := r.Text("error_message")
		if r.Text("status") == "success" {
			outcome = "image"
		}
		outcomes[strings.TrimPrefix(r.Text("url"), w.URL)] = outcome
		return nil
	}))
	return outcomes
}

// fetchInto fetches URLs into a folder.
func fetchInto(t *testing.T, out string, o fetch.Options, urls ...string) error {
	t.Helper()
	list := filepath.Join(t.TempDir(), "list.tsv")
	must.Do(t, os.WriteFile(list, []byte("caption\turl\textra\na picture\t"+strings.Join(urls, "\tx\na picture\t")+"\tx\n"), 0o600))
	return fetch.Run(t.Context(), openList(t, list), o, shard.Folder(out), func(context.Context, int, *fetch.Stats) error { return nil })
}

func TestHostileWeb(t *testing.T) {
	w := newWeb(t)
	o := options()
	o.Timeout = 3 * time.Second // of /slow; the others answer at once, also on a busy machine
	want := map[string]string{
		"/ok/1": "image", "/to-ok": "image", "/noai-others": "image", "/noai": "robots_tag", "/private/a": "robots", "/to-private": "robots",
		"/to-loopback": "forbidden_address", "/to-localhost": "forbidden_address", "/to-metadata": "forbidden_address",
		"/to-mapped": "forbidden_address", "/to-nat64": "forbidden_address", "/to-file": "bad_url", "/to-itself": "redirects",
		"/html": "not_image", "/empty": "empty", "/slow": "timeout", "/endless": "too_large", "/declares-much": "too_large", "/declares-more": "cut",
		"/bomb": "content_encoding", "/none": "http_404", "ftp://example.com/a.png": "bad_url", "http://user:pw@127.0.0.1/": "bad_url",
		"http://169.254.169.254/": "forbidden_address", "http://0.0.0.0/": "forbidden_address", "http://10.0.0.1/": "forbidden_address",
	}
	var paths []string
	for p := range want {
		paths = append(paths, p)
	}
	if got := crawl(t, o, w, paths...); !reflect.DeepEqual(got, want) {
		for p := range want {
			if got[p] != want[p] {
				t.Errorf("%s: %q, want %q", p, got[p], want[p])
			}
		}
	}
	if w.asked["/private/a"] != 0 || w.asked["/robots.txt"] != 1 {
		t.Errorf("asked %v", w.asked)
	}
	o.AllowLoopback = false
	if got := crawl(t, o, w, "/ok/1"); got["/ok/1"] != "forbidden_address" {
		t.Errorf("loopback by default: %q", got)
	}
	o.AllowLoopback, o.IgnoreRobots = true, true
	if got := crawl(t, o, w, "/private/b", "/noai"); got["/private/b"] != "image" || got["/noai"] != "image" {
		t.Errorf("without robots: %q", got)
	}
}

// TestShardsAreScanned: what was fetched gives pairs with their columns, in the order of the list. A run that is cut
// short goes on with the shards that are not complete, and asks for nothing of the others again.
func TestShardsAreScanned(t *testing.T) {
	w := newWeb(t)
	o := options()
	o.PerShard = 10
	dir := t.TempDir()
	list, out := filepath.Join(dir, "list.jsonl"), filepath.Join(dir, "out")
	var text strings.Builder
	for i := range 35 {
		path := fmt.Sprintf("/ok/%d", i)
		if i%7 == 6 {
			path = fmt.Sprintf("/none/%d", i)
		}
		fmt.Fprintf(&text, "{\"url\":\"%s%s\",\"caption\":\"number %02d\",\"similarity\":0.25,\"n\":%d}\n", w.URL, path, i, i)
	}
	must.Do(t, os.WriteFile(list, []byte(text.String()), 0o600))
	stop := errors.New("killed")
	err := fetch.Run(t.Context(), openList(t, list), o, shard.Folder(out), func(_ context.Context, n int, _ *fetch.Stats) error {
		if n == 1 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	total, before, there := 0, 0, 0
	if err := fetch.Run(t.Context(), openList(t, list), o, shard.Folder(out), func(_ context.Context, n int, s *fetch.Stats) error {
		if s == nil {
			before, there = before+1, there+min(10, 35-10*n) // the last shard is short, and may be complete before others
		} else {
			total += s.Rows
		}
		return nil
	}); err != nil || before < 2 || there+total != 35 {
		t.Errorf("%v: %d shards with %d rows before, %d rows now", err, before, there, total)
	}
	for path, n := range w.asked {
		var row int
		_, err := fmt.Sscanf(filepath.Base(path), "%d", &row) // not of robots.txt, which each run asks for
		if err == nil && n != 1 && row < 20 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
	next := 0
	totals, err := shard.Scan(t.Context(), []string{out}, shard.Visitor{
		Example: func(ex shard.Example) error {
			if next%7 == 6 {
				next++
			}
			p := shard.Pairs(ex)[0]
			if p.Caption != fmt.Sprintf("number %02d", next) || p.Meta["n"] != int64(next) || p.Meta["similarity"] != 0.25 || !strings.HasSuffix(p.Source, fmt.Sprintf("/ok/%d", next)) {
				t.Errorf("pair %d is %+v", next, p)
			}
			next++
			return nil
		},
		Problem: func(p shard.Problem) error { t.Error(p); return nil },
	})
	if err != nil || totals.Pairs != 30 || totals.Tars != 4 {
		t.Errorf("%+v, %v", totals, err)
	}
	o.PerShard = 5
	if err := fetch.Run(t.Context(), openList(t, list), o, shard.Folder(out), func(context.Context, int, *fetch.Stats) error { return nil }); err == nil || !strings.Contains(err.Error(), "--per-shard") {
		t.Errorf("other rows: %v", err)
	}
}

// TestSlowRowsHoldUpNoOthers: the first row of a shard answers when its last one was asked for, and the last one when a
// row of the next shard was. Every row gives its image, in the order of the list.
func TestSlowRowsHoldUpNoOthers(t *testing.T) {
	const rows, perShard = 200, 100
	picture := encode(t, 1)
	asked := make([]chan struct{}, rows)
	for i := range asked {
		asked[i] = make(chan struct{})
	}
	waits := map[int]int{0: perShard - 1, perShard - 1: perShard + 3} // the row, and whom it waits for
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil {
			http.NotFound(rw, r)
			return
		}
		close(asked[n])
		if other, found := waits[n]; found {
			select {
			case <-asked[other]:
			case <-r.Context().Done():
				return
			}
		}
		if _, err := rw.Write(picture); err != nil {
			t.Log(err)
		}
	}))
	defer server.Close()
	w := &web{Server: server}
	o := options()
	o.PerShard, o.Threads = perShard, 4
	var paths []string
	for i := range rows {
		paths = append(paths, fmt.Sprintf("/%d", i))
	}
	got := crawl(t, o, w, paths...)
	for i, p := range paths[:perShard] { // of the first shard
		if got[p] != "image" {
			t.Errorf("row %d: %q, want an image", i, got[p])
		}
	}
}

// A fetch that is killed leaves nothing in TMPDIR, as its files there have no name from the start.
func TestTemporaryFilesHaveNoName(t *testing.T) {
	scratch := t.TempDir()
	t.Setenv("TMPDIR", scratch)
	var most, asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		entries, err := os.ReadDir(scratch)
		must.Check(t, err)
		asked.Add(1)
		most.Store(max(most.Load(), int64(len(entries))))
		http.NotFound(rw, r)
	}))
	defer server.Close()
	o := options()
	o.PerShard, o.Threads = 2, 1
	crawl(t, o, &web{Server: server}, "/0", "/1", "/2", "/3", "/4")
	if asked.Load() < 5 || most.Load() != 0 {
		t.Errorf("at %d requests of 5 and more, a kill would leave up to %d files in TMPDIR", asked.Load(), most.Load())
	}
}
