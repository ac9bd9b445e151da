package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestRobots holds the rules against examples of RFC 9309 and of Google's open source parser.
func TestRobots(t *testing.T) {
	for name, c := range map[string]struct {
		text, path string
		want       bool
	}{
		"no rules":                         {"", "/a", true},
		"a prefix":                         {"User-agent: *\nDisallow: /a", "/ab", false},
		"another prefix":                   {"User-agent: *\nDisallow: /a", "/b/a", true},
		"nothing is disallowed":            {"User-agent: *\nDisallow:", "/a", true},
		"the longest rule decides":         {"User-agent: *\nDisallow: /\nAllow: /pictures/", "/pictures/1.jpg", true},
		"in whatever order":                {"User-agent: *\nAllow: /pictures/\nDisallow: /", "/pictures/1.jpg", true},
		"of two as long, allow":            {"User-agent: *\nDisallow: /page\nAllow: /page", "/page", true},
		"an asterisk":                      {"User-agent: *\nDisallow: /*.gif", "/a/b.gif?c", false},
		"an asterisk and the end":          {"User-agent: *\nDisallow: /*.gif$", "/a.gif/b.gif", false},
		"not at the end":                   {"User-agent: *\nDisallow: /*.gif$", "/b.gif?c", true},
		"the end of a plain rule":          {"User-agent: *\nDisallow: /a$", "/ab", true},
		"two asterisks":                    {"User-agent: *\nDisallow: /*a*b$", "/xaxbxb", false},
		"a query":                          {"User-agent: *\nDisallow: /*?id=", "/a?id=1", false},
		"a group of ours":                  {"User-agent: *\nDisallow: /\n\nUser-agent: PairStream/2.0\nDisallow: /b", "/a", true},
		"several agents of a group":        {"User-agent: other\nUser-agent: pairstream\nDisallow: /a", "/a", false},
		"groups of ours are one":           {"User-agent: pairstream\nDisallow: /a\nUser-agent: x\nDisallow: /c\nUser-agent: pairstream\nDisallow: /b", "/b", false},
		"a group of others":                {"User-agent: pairstreamer\nDisallow: /", "/a", true},
		"comments, blanks, line ends":      {" user-AGENT : * # all\r\r\n disallow : /a # this\r", "/a", false},
		"a byte order mark":                {"\ufeffUser-agent: *\nDisallow: /", "/a", false},
		"carriage returns alone":           {"User-agent: *\rDisallow: /b\rDisallow: /a", "/a", false},
		"encoded and not":                  {"User-agent: *\nDisallow: /%7Ejoe/caf%c3%a9", "/~joe/café", false},
		"an encoded slash is none":         {"User-agent: *\nDisallow: /a/b", "/a%2fb", true},
		"too many asterisks forbid more":   {"User-agent: *\nDisallow: /a" + strings.Repeat("*b", 40), "/a" + strings.Repeat("b", 20), false},
		"too many asterisks allow nothing": {"User-agent: *\nDisallow: /\nAllow: /a" + strings.Repeat("*b", 40), "/a" + strings.Repeat("b", 50), false},
	} {
		u := must.Get(url.Parse("http://host" + c.path))(t)
		if got, err := parseRobots(c.text, "pairstream").allows(t.Context(), u); got != c.want || err != nil {
			t.Errorf("%s: allowed is %t (%v), want %t", name, got, err, c.want)
		}
	}
}

// hostileRobots returns a robots.txt as large as one may be.
func hostileRobots(rule string) string {
	line := "Disallow: " + rule + "\n"
	return "User-agent: *\n" + strings.Repeat(line, (maxRobotsBytes-20)/len(line))
}

// TestHostileRobots reads rules that were 50 MB when they were compiled, and asks rules that took 12 s of a processor
// for a path of 6 KB. Twenty such questions end, with a refusal, and what is kept is no more than what was sent.
func TestHostileRobots(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	long := strings.Repeat("*a", maxWildcards/2) + "$"
	r := parseRobots(hostileRobots("/"+long), "pairstream")
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); r.none != nil && r.size > 0 || kept > 2*maxRobotsBytes {
		t.Errorf("%d bytes are kept, of which %d are counted", kept, r.size)
	}
	if many := parseRobots(hostileRobots("/*a$"), "pairstream"); many.none == nil || len(many.list) > 0 {
		t.Errorf("%d rules are kept, want none and a reason", len(many.list))
	}
	r = parseRobots(hostileRobots("/"+strings.Repeat("*ab", maxWildcards)+strings.Repeat("x", 40)), "pairstream")
	if r.none != nil || len(r.list) < 1000 {
		t.Fatalf("%d rules: %v", len(r.list), r.none)
	}
	u := &url.URL{Scheme: "http", Host: "host", Path: "/" + strings.Repeat("a", 6000)}
	for range 20 {
		if allowed, err := r.allows(t.Context(), u); allowed || reasonOf(err) != reasonRobots {
			t.Fatal(allowed, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.allows(gone, u); !errors.Is(err, context.Canceled) {
		t.Errorf("a question that nobody waits for gives %v", err)
	}
}

// TestLongDecisions asks as many rules as a host may have, each of which reads a path to its end. A short path is
// decided on, one of 8 KB is not.
func TestLongDecisions(t *testing.T) {
	text := "User-agent: *\nDisallow: /b\n" + strings.Repeat("Disallow: /*"+strings.Repeat("a", 40)+"b\n", maxRules-1)
	r := parseRobots(text, "pairstream")
	for _, c := range []struct {
		path    string
		allowed bool
		reason  string
	}{
		{"/" + strings.Repeat("a", maxDecision/maxRules-1), true, ""},
		{"/" + strings.Repeat("a", maxDecision/maxRules+1), false, reasonRobots},
		{"/" + strings.Repeat("a", maxURL-20), false, reasonRobots},
	} {
		allowed, err := r.allows(t.Context(), &url.URL{Scheme: "http", Host: "host", Path: c.path})
		if allowed != c.allowed || reasonOf(err) != c.reason {
			t.Errorf("a path of %d bytes is allowed: %t, %v", len(c.path), allowed, err)
		}
	}
}

// testClient returns a client that may visit loopback.
func testClient(t *testing.T, change func(*Options)) *client {
	t.Helper()
	o := Options{UserAgent: "pairstream/1", Threads: 4, PerHost: 4, HostRate: 1e6, Timeout: 30 * time.Second, MaxBytes: 1 << 20, Redirects: 3, AllowLoopback: true}
	if change != nil {
		change(&o)
	}
	c := must.Get(newClient(o))(t)
	return c
}

// download downloads one image.
func download(t *testing.T, ctx context.Context, c *client, raw string) ([]chunk, error) {
	t.Helper()
	to := must.Get(newSpool())(t)
	defer to.close()
	ctx, stop := context.WithCancel(ctx)
	var dispatched sync.WaitGroup
	dispatched.Go(func() { c.dispatch(ctx) })
	type result struct {
		image []chunk
		err   error
	}
	ended := make(chan result, 1)
	c.get(&task{to: to, done: func(image []chunk, err error) { ended <- result{image, err} }}, raw)
	var r result
	select {
	case r = <-ended:
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	stop()
	dispatched.Wait()
	return r.image, r.err
}

func reasonOf(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	return ""
}

// TestRobotsOfManyHostsAreBounded visits more hosts with long rules than may be kept. What was given up is read anew.
func TestRobotsOfManyHostsAreBounded(t *testing.T) {
	c := testClient(t, nil)
	parsed := parseRobots(hostileRobots("/"+strings.Repeat("x", 200)), c.agent)
	const hosts = 2 * maxRobotsKept / maxRobotsBytes
	for i := range hosts {
		r := *parsed
		c.keep(fmt.Sprint("http://", i), &r)
	}
	if c.kept > maxRobotsKept || c.robots.Len() >= hosts || c.robots.Len() < hosts/4 {
		t.Errorf("%d bytes of %d hosts are kept, want at most %d", c.kept, c.robots.Len(), maxRobotsKept)
	}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, "User-agent: *\nDisallow: /no")
	}))
	defer server.Close()
	for _, want := range []int64{1, 1, 2} {
		if want == 2 {
			c.robots.Purge()
		}
		if _, err := download(t, t.Context(), c, server.URL+"/no"); reasonOf(err) != reasonRobots {
			t.Fatal(err)
		}
		if asked.Load() != want {
			t.Errorf("robots.txt was asked for %d times, want %d", asked.Load(), want)
		}
	}
}

// TestStalledRobotsCanBeCancelled ends downloads whose host does not answer for robots.txt, the one that asks and the
// one that waits for it.
func TestStalledRobotsCanBeCancelled(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-release
	}))
	defer server.Close()
	defer close(release)
	c := testClient(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := download(t, ctx, c, server.URL+"/a.jpg")
			ended <- err
		}()
	}
	<-asked
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a download that was cancelled gives %v", err)
		}
	}
}

// TestLongURLs refuses URLs beyond a length, given and redirected to.
func TestLongURLs(t *testing.T) {
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, server.URL+"/"+strings.Repeat("a", maxURL), http.StatusFound)
	}))
	defer server.Close()
	c := testClient(t, func(o *Options) { o.IgnoreRobots = true })
	for _, raw := range []string{server.URL + "/short", server.URL + "/" + strings.Repeat("a", maxURL)} {
		if _, err := download(t, t.Context(), c, raw); reasonOf(err) != reasonURL {
			t.Errorf("a URL of %d bytes: %v, want %s", len(raw), err, reasonURL)
		}
	}
}
