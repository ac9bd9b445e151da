package fetch_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// newHost is a host of its own, whose pages are those of a handler. It has no robots.txt.
func newHost(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(rw, r)
			return
		}
		h(rw, r)
	}))
	t.Cleanup(server.Close)
	return server
}

// outcomes fetches URLs in their order, and counts what became of those that begin with each prefix.
func outcomes(t *testing.T, o fetch.Options, urls ...string) map[string]string {
	t.Helper()
	return crawl(t, o, &web{Server: &httptest.Server{}}, urls...)
}

// TestRowsOfASlowHostHoldNoThreads has 64 rows of a host that answers none of them before all good rows were asked for.
// They come first in the list, and are more than there are threads.
func TestRowsOfASlowHostHoldNoThreads(t *testing.T) {
	const slowRows, goodRows = 64, 200
	picture := encode(t, 1)
	var asked atomic.Int64
	all := make(chan struct{})
	good := newHost(t, func(rw http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == goodRows {
			close(all)
		}
		_, _ = rw.Write(picture) // the client may have gone
	})
	slow := newHost(t, func(rw http.ResponseWriter, r *http.Request) {
		select {
		case <-all:
			_, _ = rw.Write(picture)
		case <-r.Context().Done():
		}
	})
	o := options()
	o.PerHost = 2
	var urls []string
	for i := range slowRows {
		urls = append(urls, fmt.Sprintf("%s/%d", slow.URL, i))
	}
	for i := range goodRows {
		urls = append(urls, fmt.Sprintf("%s/%d", good.URL, i))
	}
	o.PerShard = len(urls)
	for u, got := range outcomes(t, o, urls...) {
		if got != "image" {
			t.Errorf("%s: %q, want an image", u, got)
		}
	}
}

// TestRedirectsCountWhereTheyLead redirects rows of eight hosts to a ninth one. It has no more connections and requests
// at once than if they were its own rows, and its robots.txt is asked.
func TestRedirectsCountWhereTheyLead(t *testing.T) {
	const hosts, rows, perHost = 8, 10, 2
	picture := encode(t, 1)
	var now, most, robots atomic.Int64
	third := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			robots.Add(1)
			_, _ = rw.Write([]byte("User-agent: *\nDisallow: /no\n"))
			return
		}
		if strings.HasPrefix(r.URL.Path, "/no") {
			t.Errorf("%s was asked for", r.URL.Path)
		}
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(5 * time.Millisecond) // others would meet it here
		_, _ = rw.Write(picture)
	}))
	t.Cleanup(third.Close)
	o := options()
	o.Threads, o.PerHost = 32, perHost
	want := map[string]string{}
	var urls []string
	for range hosts {
		from := newHost(t, func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, third.URL+r.URL.Path, http.StatusFound)
		})
		for i := range rows {
			path, outcome := fmt.Sprintf("/%d", i), "image"
			if i%5 == 0 {
				path, outcome = fmt.Sprintf("/no/%d", i), "robots"
			}
			urls = append(urls, from.URL+path)
			want[from.URL+path] = outcome
		}
	}
	for u, got := range outcomes(t, o, urls...) {
		if got != want[u] {
			t.Errorf("%s: %q, want %q", u, got, want[u])
		}
	}
	if most.Load() > perHost || robots.Load() != 1 {
		t.Errorf("the third host had %d requests at once, want at most %d; its robots.txt was asked for %d times", most.Load(), perHost, robots.Load())
	}
}

// TestRedirectsKeepTheRate redirects rows of eight hosts to a ninth one. All its requests take as long as the rate
// wants at least.
func TestRedirectsKeepTheRate(t *testing.T) {
	const hosts, rows, perHost, rate = 8, 3, 4, 50
	picture := encode(t, 1)
	began := time.Now()
	var last atomic.Int64
	third := newHost(t, func(rw http.ResponseWriter, _ *http.Request) {
		last.Store(int64(time.Since(began)))
		_, _ = rw.Write(picture)
	})
	o := options()
	o.Threads, o.PerHost, o.HostRate = 32, perHost, rate
	var urls []string
	for range hosts {
		from := newHost(t, func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, third.URL+r.URL.Path, http.StatusFound)
		})
		for i := range rows {
			urls = append(urls, fmt.Sprintf("%s/%d", from.URL, i))
		}
	}
	for u, got := range outcomes(t, o, urls...) {
		if got != "image" {
			t.Errorf("%s: %q, want an image", u, got)
		}
	}
	if want := time.Second * (hosts*rows - perHost) / rate; time.Duration(last.Load()) < want {
		t.Errorf("the third host had %d requests in %v, want %v at least", hosts*rows, time.Duration(last.Load()), want)
	}
}

// TestRedirectsThatStop has redirects whose body never ends. They are followed all the same.
func TestRedirectsThatStop(t *testing.T) {
	picture := encode(t, 1)
	good := newHost(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(picture) })
	from := newHost(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Location", good.URL+r.URL.Path)
		rw.Header().Set("Content-Length", "1000")
		rw.WriteHeader(http.StatusFound)
		rw.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	o := options()
	o.Timeout = time.Second
	for u, got := range outcomes(t, o, from.URL+"/1", from.URL+"/2") {
		if got != "image" {
			t.Errorf("%s: %q, want an image", u, got)
		}
	}
}

// TestRobotsInACircle has two hosts whose robots.txt lead to each other. Their rows give nothing, and the run ends.
func TestRobotsInACircle(t *testing.T) {
	var first, second *httptest.Server
	to := func(where **httptest.Server) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, (*where).URL+"/robots.txt", http.StatusFound)
		}
	}
	first, second = httptest.NewServer(to(&second)), httptest.NewServer(to(&first))
	t.Cleanup(first.Close)
	t.Cleanup(second.Close)
	for u, got := range outcomes(t, options(), first.URL+"/a", second.URL+"/a", first.URL+"/b") {
		if got != "redirects" {
			t.Errorf("%s: %q, want the reason redirects", u, got)
		}
	}
}

// TestSilentHostIsSetAside has a host that answers for no image. It is set aside, which is said, and most of its rows
// are not asked for.
func TestSilentHostIsSetAside(t *testing.T) {
	const rows = 60
	var asked atomic.Int64
	silent := newHost(t, func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	})
	o := options()
	o.PerHost, o.Timeout = 4, 100*time.Millisecond
	var mu sync.Mutex
	var pauses []time.Duration
	o.SetAside = func(host string, pause time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if host != silent.URL {
			t.Errorf("%s is set aside", host)
		}
		pauses = append(pauses, pause)
	}
	var urls []string
	for i := range rows {
		urls = append(urls, fmt.Sprintf("%s/%d", silent.URL, i))
	}
	counts := map[string]int{}
	for _, got := range outcomes(t, o, urls...) {
		counts[got]++
	}
	if counts["host_set_aside"] < rows/2 || counts["timeout"] < 5 || counts["timeout"]+counts["host_set_aside"] != rows || asked.Load() >= rows/2 {
		t.Errorf("outcomes %v, and %d requests", counts, asked.Load())
	}
	if len(pauses) != 2 || pauses[0] != 2*o.Timeout || pauses[1] != 4*o.Timeout {
		t.Errorf("pauses of %v, want the second twice as long", pauses)
	}
}

// TestHostileLists reads lists with rows that are broken, or large. Each costs itself.
func TestHostileLists(t *testing.T) {
	picture := encode(t, 1)
	good := newHost(t, func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(picture) })
	large := strings.Repeat("x", 3<<20)
	for name, list := range map[string]string{
		"a.jsonl": `{"url":"URL/1","caption":"a"}` + "\n" + `{"url":` + "\n" + `{"url":"URL/2","caption":"` + large + `"}` + "\n" + `[1]` + "\n" + `{"url":"URL/3","caption":"a"}` + "\n",
		"a.csv":   "url,caption\nURL/1,a\nURL/2,a\"b\nURL/2," + large + "\n\"URL/2\"x,a\nURL/3,a\n",
		"a.tsv":   "url\tcaption\nURL/1\ta\nURL/2\t" + large + "\nURL/3\ta\n",
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(strings.ReplaceAll(list, "URL", good.URL)), 0o600))
		var stats fetch.Stats
		if err := fetch.Run(t.Context(), openList(t, path), options(), shard.Folder(dir), func(_ context.Context, _ int, s *fetch.Stats) error {
			stats = *s
			return nil
		}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if stats.Success != 2 || stats.Reasons["bad_row"] != stats.Rows-2 || stats.Rows < 3 {
			t.Errorf("%s: %+v, want two images, and bad_row for the others", name, stats)
		}
		found := 0
		if err := table.ParquetFile(t.Context(), filepath.Join(dir, "00000.parquet"), func(r table.Row) error { found++; return nil }); err != nil || found != stats.Rows {
			t.Errorf("%s: %d outcomes of %d rows: %v", name, found, stats.Rows, err)
		}
	}
}
