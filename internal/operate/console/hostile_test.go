package console_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/runlog"
	"github.com/pairstream/pairstream/internal/testing/torture"
)

// TestHostileRequests sends the console what no browser should, beside many idle connections, and wants a page behind
// it.
func TestHostileRequests(t *testing.T) {
	short := 300 * time.Millisecond
	s := open(t, runlog.Options{Pairs: 10}, func(o *console.Options) {
		o.Limits = service.HTTPLimits{Read: short, Write: short, Idle: short, Connections: 32}
	})
	for path, post := range map[string]string{"/": "/judgements", "/static/console.css": "/search", "/healthz": "/login"} {
		torture.ThrowRequests(t, s.address[len("http://"):], torture.Requests(path, post), 64)
	}
	s.get("/dead-letters")
}

// TestNamesOfOthers has names that somebody else's DNS may lead to loopback.
func TestNamesOfOthers(t *testing.T) {
	s := open(t, runlog.Options{Pairs: 10}, nil)
	for host, want := range map[string]int{
		"localhost": http.StatusOK, "localhost:1": http.StatusOK, "127.0.0.1": http.StatusOK, "127.8.9.10:80": http.StatusOK, "[::1]:80": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example:80": http.StatusMisdirectedRequest, "localhost.evil.example": http.StatusMisdirectedRequest,
		"2130706433": http.StatusMisdirectedRequest, "10.0.0.7": http.StatusMisdirectedRequest, "[::ffff:10.0.0.7]": http.StatusMisdirectedRequest, "0.0.0.0": http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/", "/static/console.css", "/healthz", "/events/flow", "/login"} {
			if want == http.StatusOK && path == "/events/flow" {
				continue // it does not end
			}
			if got, _, _ := s.ask(http.MethodGet, path, map[string]string{"Host": host}, nil); got != want {
				t.Errorf("%s asked as %q: status %d, want %d", path, host, got, want)
			}
		}
	}
}
