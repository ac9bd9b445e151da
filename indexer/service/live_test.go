package service

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/neighbors/knn/reference"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/torture"
)

// TestLiveSearchIsNotOpenToAll refuses addresses that others can reach unless there is a token.
func TestLiveSearchIsNotOpenToAll(t *testing.T) {
	const token = "0123456789abcdef"
	for name, test := range map[string]struct{ addr, token, want string }{
		"none":                  {"", "", ""},
		"loopback":              {"127.0.0.1:8080", "", ""},
		"another loopback":      {"127.8.9.10:8080", "", ""},
		"loopback of IPv6":      {"[::1]:8080", "", ""},
		"its name":              {"localhost:8080", "", ""},
		"loopback with a token": {"127.0.0.1:8080", token, ""},
		"all":                   {":8080", "", "LIVE_TOKEN"},
		"all of IPv4":           {"0.0.0.0:8080", "", "LIVE_TOKEN"},
		"all of IPv6":           {"[::]:8080", "", "LIVE_TOKEN"},
		"a network":             {"10.0.0.7:8080", "", "LIVE_TOKEN"},
		"a name":                {"search.example.com:8080", "", "LIVE_TOKEN"},
		"all with a token":      {":8080", token, ""},
		"a short token":         {":8080", token[1:], "LIVE_TOKEN has 15 bytes, want at least 16"},
		"no port":               {"127.0.0.1", "", "LIVE_ADDR"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse[Settings](map[string]string{"LIVE_ADDR": test.addr, "LIVE_TOKEN": test.token})
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error with %q", err, test.want)
			case err != nil && test.token != "" && strings.Contains(err.Error(), test.token):
				t.Errorf("the token is in the error: %v", err)
			}
		})
	}
}

// serve runs live search on a free port of the loopback until the test ends.
func serve(t *testing.T, s Settings, limits service.HTTPLimits) (addr string) {
	t.Helper()
	live := must.Get(indexer.NewLive(indexer.DefaultLiveOptions(), reference.Engine{}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	all, ctx := interrupt.WithContext(ctx)
	s.LiveAddr = "127.0.0.1:0"
	listener := must.Get(serveLive(ctx, all, s, live, limits))(t)
	t.Cleanup(func() {
		cancel()
		if err := all.Wait(); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		must.Check(t, live.Close())
	})
	return listener.String()
}

func TestLiveSearchAsksForTheToken(t *testing.T) {
	addr := serve(t, Settings{LiveToken: "0123456789abcdef"}, liveLimits)
	for header, want := range map[string]int{
		"":                        http.StatusUnauthorized,
		"Bearer 0123456789abcdeg": http.StatusUnauthorized,
		"Bearer 0123456789abcde":  http.StatusUnauthorized,
		"Basic 0123456789abcdef":  http.StatusUnauthorized,
		"Bearer 0123456789abcdef": http.StatusNotFound, // the pair is not held
		"bearer 0123456789abcdef": http.StatusNotFound,
	} {
		req := must.Get(http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+addr+"/neighbors?pair="+strings.Repeat("0", 32), http.NoBody))(t)
		if header != "" {
			req.Header.Set("Authorization", header)
		}
		resp := must.Get(http.DefaultClient.Do(req))(t)
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%q: status %d, want %d", header, resp.StatusCode, want)
		}
		if resp.StatusCode == http.StatusUnauthorized && resp.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%q: the answer does not say how to authenticate", header)
		}
	}
}

// TestLiveSearchEndsSlowClients has clients that send a head or a body byte by byte, or nothing, and one that keeps its
// connection: the server ends them all, and then answers others.
func TestLiveSearchEndsSlowClients(t *testing.T) {
	limits := service.HTTPLimits{Read: 200 * time.Millisecond, Write: 200 * time.Millisecond, Idle: 200 * time.Millisecond, Connections: 3}
	addr := serve(t, Settings{}, limits)
	for name, sent := range map[string]string{
		"nothing":     "",
		"half a head": "GET /neighbors HTTP/1.1\r\nHost: x\r\nX-Slow: ",
		"half a body": "POST /search HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{\"vector\": [",
		"idle":        "GET /neighbors HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn := must.Get(net.Dial("tcp", addr))(t)
			defer conn.Close()
			must.Get(conn.Write([]byte(sent)))(t)
			must.Do(t, conn.SetReadDeadline(time.Now().Add(20*time.Second)))
			if _, err := bufio.NewReader(conn).WriteTo(discard{}); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("the connection was not ended: %v", err)
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestLiveSearchLimitsConnections opens as many connections as there may be; another one waits until one of them ends.
func TestLiveSearchLimitsConnections(t *testing.T) {
	limits := liveLimits
	limits.Connections = 2
	addr := serve(t, Settings{}, limits)
	ask := func(conn net.Conn, wait time.Duration) error {
		if _, err := fmt.Fprintf(conn, "GET /neighbors HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			return err
		}
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	var conns []net.Conn
	for range 3 {
		conn := must.Get(net.Dial("tcp", addr))(t)
		defer conn.Close()
		conns = append(conns, conn)
	}
	for i, conn := range conns[:2] {
		if err := ask(conn, 20*time.Second); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if err := ask(conns[2], 300*time.Millisecond); err == nil {
		t.Fatal("a third connection was served")
	}
	conns[0].Close()
	must.Do(t, conns[2].SetReadDeadline(time.Now().Add(20*time.Second)))
	if _, err := conns[2].Read(make([]byte, 1)); err != nil {
		t.Errorf("the third connection is not served after the first ended: %v", err)
	}
}

// answered returns what a request for a pair that is not held is answered with.
func answered(t *testing.T, addr, method string, change func(*http.Request)) int {
	t.Helper()
	path := map[string]string{http.MethodGet: "/neighbors?pair=" + strings.Repeat("0", 32), http.MethodPost: "/search"}[method]
	r := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, strings.NewReader(`{"vector":[1]}`)))(t)
	change(r)
	response := must.Get(http.DefaultClient.Do(r))(t)
	response.Body.Close()
	return response.StatusCode
}

// TestLiveSearchOfLoopbackAnswersNoOtherName has pages in a browser that reach loopback by way of their own DNS, or
// send searches there without reading the answers.
func TestLiveSearchOfLoopbackAnswersNoOtherName(t *testing.T) {
	open, behindToken := serve(t, Settings{}, liveLimits), serve(t, Settings{LiveToken: "0123456789abcdef"}, liveLimits)
	for host, want := range map[string]int{
		"": http.StatusNotFound, "localhost": http.StatusNotFound, "localhost:1": http.StatusNotFound, "127.0.0.1": http.StatusNotFound, "[::1]:80": http.StatusNotFound,
		"evil.example": http.StatusMisdirectedRequest, "127.0.0.1.evil.example:80": http.StatusMisdirectedRequest, "localhost.evil.example": http.StatusMisdirectedRequest,
		"2130706433": http.StatusMisdirectedRequest, "10.0.0.7": http.StatusMisdirectedRequest,
	} {
		if got := answered(t, open, http.MethodGet, func(r *http.Request) { r.Host = host }); got != want {
			t.Errorf("asked as %q: status %d, want %d", host, got, want)
		}
		got := answered(t, behindToken, http.MethodGet, func(r *http.Request) {
			r.Host = host
			r.Header.Set("Authorization", "Bearer 0123456789abcdef")
		})
		if got != http.StatusNotFound {
			t.Errorf("asked as %q with the token: status %d, want %d", host, got, http.StatusNotFound)
		}
	}
	for origin, want := range map[string]int{"": http.StatusNotFound, "http://evil.example": http.StatusForbidden, "null": http.StatusForbidden} {
		got := answered(t, open, http.MethodPost, func(r *http.Request) {
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
		})
		if got != want {
			t.Errorf("a search from a page of %q: status %d, want %d", origin, got, want)
		}
	}
}

// TestLiveSearchUnderHostileRequests sends what no client should, beside more idle connections than there may be.
func TestLiveSearchUnderHostileRequests(t *testing.T) {
	short := 300 * time.Millisecond
	limits := service.HTTPLimits{Read: short, Write: short, Idle: short, Connections: 32}
	addr := serve(t, Settings{}, limits)
	torture.ThrowRequests(t, addr, torture.Requests("/neighbors?pair="+strings.Repeat("0", 32), "/search"), 2*limits.Connections)
	if got := answered(t, addr, http.MethodGet, func(*http.Request) {}); got != http.StatusNotFound {
		t.Errorf("after hostile requests a good one is answered with %d, want %d", got, http.StatusNotFound)
	}
}
