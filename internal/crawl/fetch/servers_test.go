package fetch_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestServersThatAskToWait: rows that a server refuses for a while have their images when it has had the pause, by
// seconds, by a date, or without a word. A server that goes on refusing costs its rows.
func TestServersThatAskToWait(t *testing.T) {
	picture := encode(t, 1)
	var mu sync.Mutex
	asked := map[string][]time.Time{}
	host := newHost(t, func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path] = append(asked[r.URL.Path], time.Now())
		n := len(asked[r.URL.Path])
		mu.Unlock()
		switch {
		case r.URL.Path == "/429" && n == 1:
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/503" && n == 1:
			rw.Header().Set("Retry-After", time.Now().Add(time.Second).UTC().Format(http.TimeFormat))
			rw.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/always":
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/silent" && n == 1:
			rw.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/500":
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader(http.StatusInternalServerError)
		default:
			_, _ = rw.Write(picture)
		}
	})
	o := options()
	o.PerHost = 1
	got := crawl(t, o, &web{Server: host}, "/429", "/503", "/always", "/silent", "/500", "/ok")
	want := map[string]string{"/429": "image", "/503": "image", "/always": "http_429", "/silent": "image", "/500": "http_500", "/ok": "image"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
	if n := asked["/429"]; len(n) != 2 || n[1].Sub(n[0]) < time.Second {
		t.Errorf("asked at %v, want a second between", n)
	}
	if n := asked["/silent"]; len(n) != 2 || n[1].Sub(n[0]) < time.Second {
		t.Errorf("asked without a word at %v, want a second between", n)
	}
	if len(asked["/always"]) != 4 || len(asked["/500"]) != 1 {
		t.Errorf("asked %d and %d times, want 4 and 1", len(asked["/always"]), len(asked["/500"]))
	}
}

// TestAddressesAndCodingsAsTheyAre has white space around addresses, and codings that compress nothing.
func TestAddressesAndCodingsAsTheyAre(t *testing.T) {
	picture := encode(t, 1)
	host := newHost(t, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header()["Content-Encoding"] = []string{r.URL.Query().Get("coding")}
		_, _ = rw.Write(picture)
	})
	want := map[string]string{}
	var urls []string
	add := func(url, outcome string) {
		urls = append(urls, url)
		want[strings.TrimPrefix(url, host.URL)] = outcome
	}
	for _, coding := range []string{"", "identity", "none", "UTF-8", "binary", "aws-chunked", "8bit", "image/png", ",", "aws-chunked, identity"} {
		add(host.URL+"/?coding="+strings.ReplaceAll(coding, " ", "%20"), "image")
	}
	for _, coding := range []string{"gzip", "GZIP", "x-gzip", "deflate", "br", "zstd", "compress", "aws-chunked,gzip"} {
		add(host.URL+"/?coding="+coding, "content_encoding")
	}
	for _, around := range []string{" %s ", "\u00a0%s", "%s\r", "\u3000%s\u3000"} {
		add(fmt.Sprintf(around, host.URL+"/?around="+strconv.Itoa(len(urls))), "image")
	}
	if got := crawl(t, options(), &web{Server: host}, urls...); !reflect.DeepEqual(got, want) {
		for u, outcome := range want {
			if got[u] != outcome {
				t.Errorf("%q: %s, want %s", u, got[u], outcome)
			}
		}
	}
}

// TestProxy downloads through a proxy, which is asked for nothing that lies inside of networks, behind redirects as
// well. Its name and password stay out of what is said.
func TestProxy(t *testing.T) {
	picture := encode(t, 1)
	var mu sync.Mutex
	asked := map[string]bool{}
	proxy := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.Method+" "+r.Host+r.URL.Path] = true
		mu.Unlock()
		if to, found := strings.CutPrefix(r.URL.Path, "/to/"); found {
			rw.Header().Set("Location", "http://"+to+"/1")
			rw.WriteHeader(http.StatusFound)
			return
		}
		if r.Method == http.MethodConnect || r.Header.Get("Proxy-Authorization") == "" {
			rw.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = rw.Write(picture)
	}))
	defer proxy.Close()
	want := map[string]string{
		"http://93.184.215.14/1": "image", "http://pictures.invalid/1": "image", "http://pictures.invalid/to/pictures.invalid": "image",
		"https://93.184.215.14/1": "network",
	}
	for _, inside := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "localhost", "a.localhost", "metadata.google.internal", "printer.local", "intranet", "[::1]"} {
		want["http://"+inside+"/1"] = "forbidden_address"
		want["http://pictures.invalid/to/"+inside] = "forbidden_address"
	}
	var urls []string
	for u := range want {
		urls = append(urls, u)
	}
	o := options()
	o.AllowLoopback = false
	o.Proxy = strings.Replace(proxy.URL, "://", "://user:secret@", 1)
	if got := crawl(t, o, &web{Server: &httptest.Server{}}, urls...); !reflect.DeepEqual(got, want) {
		for u, outcome := range want {
			if got[u] != outcome {
				t.Errorf("%s: %s, want %s", u, got[u], outcome)
			}
		}
	}
	for request := range asked {
		if !strings.Contains(request, "pictures.invalid") && !strings.Contains(request, "93.184.215.14") {
			t.Errorf("the proxy was asked for %q", request)
		}
	}
	for _, wrong := range []string{"ftp://user:secret@a", "user:secret@a:3128", "http://", "http://a:secret:1"} {
		o.Proxy = wrong
		if err := o.Validate(); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v", wrong, err)
		}
	}
}

// TestAProxyThatDoesNotAnswerEndsTheRun: otherwise every row would fail, for good.
func TestAProxyThatDoesNotAnswerEndsTheRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil || l.Close() != nil {
		t.Fatal(err)
	}
	o := options()
	o.Proxy = "http://user:secret@" + l.Addr().String()
	if err := fetchInto(t, t.TempDir(), o, "http://pictures.invalid/1"); err == nil || !strings.Contains(err.Error(), "--proxy") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
}
