package ingest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/ingest"
	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestFaultsOfTheLogAreTemporary: while the log does not answer, or has no topics, a client is told to send its pairs
// again.
func TestFaultsOfTheLogAreTemporary(t *testing.T) {
	for name, test := range map[string]struct {
		options func(*ingest.Options)
		fault   func(*frontDoor) error
	}{
		"the lag is not known": {func(o *ingest.Options) {
			o.Lag = func(context.Context) (int64, error) {
				return 0, errors.New("dial tcp 10.1.2.3:9092: connection refused")
			}
		}, nil},
		"no broker": {nil, func(d *frontDoor) error { return d.end() }},
		"no topics": {nil, func(d *frontDoor) error {
			return kafka.DeleteTopics(t.Context(), []string{d.broker.Addr()}, stream.DefaultConfig().Namespace)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, func(o *ingest.Options) {
				if o.AckTime = 300 * time.Millisecond; test.options != nil {
					test.options(o)
				}
			})
			if test.fault != nil {
				must.Do(t, test.fault(d))
			}
			for _, kind := range []string{"application/json", "application/x-ndjson"} {
				status, got, header := d.post(kind, []byte(object(picture(1), `"caption":"x"`)))
				if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || len(got.Pairs) > 0 || !strings.Contains(got.Error, "again") {
					t.Errorf("%d %+v, Retry-After %q", status, got, header.Get("Retry-After"))
				}
				if strings.Contains(got.Error, "10.1.2.3") || strings.Contains(got.Error, d.broker.Addr()) {
					t.Errorf("the answer names a broker: %q", got.Error)
				}
			}
		})
	}
}

// TestKnownPairsThatTheLogHasLost: a pair that the log has lost is published again, however lately it was acknowledged.
func TestKnownPairsThatTheLogHasLost(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(picture(7)) }))
	defer web.Close()
	d := open(t, nil)
	brokers := []string{d.broker.Addr()}
	body := object(picture(1), `"caption":"sent"`) + "\n" + fmt.Sprintf(`{"url":%q,"caption":"linked"}`, web.URL)
	namespace := d.log.Config().Namespace
	for name, lose := range map[string]func() error{
		"": func() error { return nil },
		"topics made anew": func() error {
			return errors.Join(kafka.DeleteTopics(t.Context(), brokers, namespace), d.log.EnsureTopics(t.Context()))
		},
		"retention": func() (err error) {
			ends := must.Get(d.log.Ends(t.Context(), schemas.Pairs))(t)
			for lane, end := range ends {
				err = errors.Join(err, kafka.DeleteRecords(t.Context(), brokers, schemas.Pairs.Name(namespace), lane, end))
			}
			return err
		},
	} {
		for i := range 2 {
			if i == 1 {
				must.Do(t, lose())
			}
			status, got, _ := d.post("application/x-ndjson", []byte(body))
			for status == http.StatusServiceUnavailable && t.Context().Err() == nil {
				status, got, _ = d.post("application/x-ndjson", []byte(body)) // as the page says
			}
			pairs, records := d.published()
			if status != http.StatusOK || len(got.Pairs) != 2 || records < 2 {
				t.Errorf("%s: %d %+v", name, status, got)
			}
			for _, p := range got.Pairs {
				if pairs[p.ID] == nil {
					t.Errorf("%s: pair %d has an id, and is not on the log", name, p.Index)
				}
			}
		}
	}
}

// site serves a picture at each path, and counts how often. Paths that begin with /slow wait until the site is
// released.
type site struct {
	*httptest.Server
	released chan struct{}

	mu    sync.Mutex
	asked map[string]int
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{released: make(chan struct{}), asked: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked[r.URL.Path]++
		s.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/slow") {
			select {
			case <-s.released:
			case <-r.Context().Done():
				return
			}
		}
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(picture(len(r.URL.Path)))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// linked makes a line for each URL.
func linked(urls ...string) []byte {
	var lines bytes.Buffer
	for i, u := range urls {
		fmt.Fprintf(&lines, "{\"url\":%q,\"caption\":\"line %d\"}\n", u, i)
	}
	return lines.Bytes()
}

// TestManyURLs sends a request whose downloads take longer than a request has. The answer says what is on the log, and
// that the others may be sent again. Sent again, the request asks only for these.
func TestManyURLs(t *testing.T) {
	d := open(t, func(o *ingest.Options) { o.DownloadTime = 2 * time.Second })
	sites := []*site{newSite(t), newSite(t)}
	var urls []string
	for _, s := range sites {
		urls = append(urls, s.URL+"/a", s.URL+"/bb", s.URL+"/slow", s.URL+"/bb")
	}
	status, got, header := d.post("application/x-ndjson", append(linked(urls...), object(picture(99), `"caption":"in the body"`)...))
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(got.Error, "2 pairs were not taken in time") {
		t.Fatalf("%d %+v", status, got)
	}
	pairs, _ := d.published()
	outcomes := map[int]string{}
	for _, p := range got.Pairs {
		if outcomes[p.Index] = "taken"; pairs[p.ID] == nil {
			t.Errorf("line %d is not on the log", p.Index)
		}
	}
	for _, e := range got.Errors {
		if outcomes[e.Index] = "late"; !e.Retry || !strings.Contains(e.Error, "send it again") {
			t.Errorf("line %d: %+v", e.Index, e)
		}
	}
	if want := (map[int]string{0: "taken", 1: "taken", 2: "late", 3: "taken", 4: "taken", 5: "taken", 6: "late", 7: "taken", 8: "taken"}); !maps.Equal(outcomes, want) {
		t.Errorf("%v, want %v", outcomes, want)
	}
	for _, s := range sites {
		close(s.released)
	}
	status, got, _ = d.post("application/x-ndjson", linked(urls...))
	if status != http.StatusOK || len(got.Pairs) != len(urls) {
		t.Errorf("sent again: %d %+v", status, got)
	}
	for _, s := range sites {
		if s.count("/a") != 1 || s.count("/bb") != 1 || s.count("/slow") != 2 {
			t.Errorf("the site was asked %v, want each image once, and the late one twice", s.asked)
		}
	}
	if _, records := d.published(); records != len(urls)+1 {
		t.Errorf("%d records, want %d", records, len(urls)+1)
	}
}

// TestSlowHostsHoldNobodyUp: while requests wait for slow hosts, a URL of another host is downloaded, and so is one of
// the same request.
func TestSlowHostsHoldNobodyUp(t *testing.T) {
	d := open(t, nil)
	good := newSite(t)
	var slow []*site
	for range 12 {
		slow = append(slow, newSite(t))
	}
	var all sync.WaitGroup
	for n := range 4 {
		var urls []string
		for i := range 120 {
			urls = append(urls, fmt.Sprintf("%s/slow/%d", slow[i%len(slow)].URL, i%8))
		}
		urls = append(urls, fmt.Sprintf("%s/with-%d", good.URL, n))
		all.Go(func() {
			if status, got, _ := d.post("application/x-ndjson", linked(urls...)); len(got.Pairs)+len(got.Errors) != len(urls) {
				t.Errorf("%d, %d pairs and %d errors for %d lines", status, len(got.Pairs), len(got.Errors), len(urls))
			}
		})
	}
	for n := range 4 {
		for good.count(fmt.Sprintf("/with-%d", n)) == 0 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	if status, got, _ := d.post("application/json", bytes.TrimSpace(linked(good.URL+"/alone"))); status != http.StatusOK {
		t.Errorf("a URL of a host that answers: %d %+v", status, got)
	}
	for _, s := range slow {
		close(s.released)
	}
	all.Wait()
}

// TestErrorsOfURLs tell nothing of the network of the server.
func TestErrorsOfURLs(t *testing.T) {
	d := open(t, nil)
	urls := []string{"http://127.0.0.1:1/a", "http://name.invalid/a.jpg", "http://10.1.2.3/a", "http://[::1]:1/a", "http://user:password@host/", "http://localhost:1/a"}
	status, got, _ := d.post("application/x-ndjson", linked(urls...))
	if status != http.StatusBadRequest || len(got.Errors) != len(urls) {
		t.Fatalf("%d %+v", status, got)
	}
	for _, e := range got.Errors {
		for _, word := range []string{"dial", "lookup", "127.0.0.1", "::1", ":53", "10.1.2.3", "password@", "/etc", "refused"} {
			if strings.Contains(e.Error, word) || e.Retry {
				t.Errorf("%s: %q", urls[e.Index], e.Error)
			}
		}
	}
}

// TestBodiesThatAreNotWhole: the answer says what is on the log of a body that comes too slowly.
func TestBodiesThatAreNotWhole(t *testing.T) {
	d := open(t, func(o *ingest.Options) {
		o.Limits.Read, o.Limits.Write, o.Limits.Idle, o.Limits.Connections = time.Second, time.Minute, time.Minute, 8
	})
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, object(picture(1), `"caption":"whole"`)+"\n{\"caption\"") // and no more
	}()
	defer w.Close()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, d.address+"/v1/pairs", r))(t)
	request.Header.Set("Content-Type", "application/x-ndjson")
	got := d.do(request)
	pairs, _ := d.published()
	if got.status != http.StatusRequestTimeout || len(got.Pairs) != 1 || pairs[got.Pairs[0].ID] == nil || !strings.Contains(got.Error, "smaller requests") {
		t.Errorf("%+v, and the log has %v", got, slices.Collect(maps.Keys(pairs)))
	}
}

// TestValuesOfOtherPrograms sends what pandas and other libraries make of a pair.
func TestValuesOfOtherPrograms(t *testing.T) {
	d := open(t, nil)
	data := append(picture(1), bytes.Repeat([]byte{0xfb, 0xff, 0xfe}, 100)...) // which have + and / in base64
	id := schemas.NewPairID(schemas.NewImageID(data), "a cat").String()
	nulls := `"caption":"a cat","source":null,"crawl_time":null,"url":null,"meta":{"width":64` + strings.Repeat(`,"x%d":null`, 200) + `}`
	for i := range 200 {
		nulls = strings.Replace(nulls, "x%d", fmt.Sprintf("x%d", i), 1)
	}
	plain := object(data, `"caption":"a cat"`)
	text := strings.Split(plain, `"`)[3]
	var wrapped strings.Builder
	for i := 0; i < len(text); i += 76 {
		wrapped.WriteString(text[i:min(i+76, len(text))] + `\r\n`)
	}
	for name, body := range map[string]string{
		"nulls":                 object(data, nulls),
		"no numbers":            "\ufeff" + object(data, `"caption":"a cat","crawl_time":NaN,"meta":{"a":NaN,"b":-Infinity,"c":Infinity,"w":1}`),
		"meta that is null":     object(data, `"caption":"a cat","meta":null`),
		"lines":                 strings.Replace(plain, text, wrapped.String(), 1),
		"the alphabet of URLs":  strings.Replace(plain, text, strings.NewReplacer("+", "-", "/", "_").Replace(text), 1),
		"no padding":            strings.Replace(plain, text, strings.TrimRight(text, "="), 1),
		"escapes of PHP":        strings.ReplaceAll(plain, "/", `\/`),
		"escapes of .NET":       strings.ReplaceAll(plain, "+", `\u002B`),
		"white space around it": "\n " + strings.Replace(plain, text, " "+text+" ", 1) + "\t\n",
	} {
		if status, got, _ := d.post("application/json", []byte(body)); status != http.StatusOK || got.Pairs[0].ID != id {
			t.Errorf("%s: %d %+v", name, status, got)
		}
	}
	if pairs, _ := d.published(); len(pairs) != 1 || len(pairs[id].Meta) > 1 {
		t.Errorf("the log has %v", pairs)
	}
}
