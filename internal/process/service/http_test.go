package service

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/torture"
)

// serving returns the addresses of a server at HTTP_ADDR and HEALTH_ADDR that runs until the test ends.
func serving(t *testing.T, limits HTTPLimits) (all, health string) {
	t.Helper()
	s := must.Get(newHTTPServer(Process{HTTPAddr: "127.0.0.1:0", HealthAddr: "127.0.0.1:0"}, NewRuntime(slog.New(slog.DiscardHandler)), limits))(t)
	done := make(chan error, 1)
	go func() { done <- s.serve() }()
	t.Cleanup(func() {
		s.close()
		must.Check(t, <-done)
	})
	return s.listeners[0].Addr().String(), s.listeners[1].Addr().String()
}

func status(t *testing.T, method, url string, body io.Reader) int {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), method, url, body))(t)
	response := must.Get(http.DefaultClient.Do(request))(t)
	response.Body.Close()
	return response.StatusCode
}

func TestWhatIsServedWhere(t *testing.T) {
	all, health := serving(t, DefaultHTTPLimits)
	for url, want := range map[string]int{
		all + "/metrics": 200, all + "/healthz": 200, all + "/readyz": 503, all + "/debug/pprof/": 404,
		health + "/healthz": 200, health + "/readyz": 503, health + "/metrics": 404,
	} {
		if got := status(t, http.MethodGet, "http://"+url, nil); got != want {
			t.Errorf("%s answers %d, want %d", url, got, want)
		}
	}
}

// Whoever takes every connection of the metrics keeps nobody from asking after the process's health.
func TestHealthAnswersWhileMetricsAreTaken(t *testing.T) {
	all, health := serving(t, DefaultHTTPLimits)
	var taken []net.Conn
	for range DefaultHTTPLimits.Connections {
		c := must.Get(net.Dial("tcp", all))(t)
		defer c.Close()
		// An answered request shows that the server has accepted the connection, and it stays open.
		must.Get(io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
		must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
		taken = append(taken, c)
	}
	late := must.Get(net.Dial("tcp", all))(t)
	defer late.Close()
	must.Get(io.WriteString(late, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	must.Do(t, late.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one connection more than %d is served: %v", DefaultHTTPLimits.Connections, err)
	}
	if got := status(t, http.MethodGet, "http://"+health+"/healthz", nil); got != http.StatusOK {
		t.Errorf("health answers %d", got)
	}
	taken[0].Close()
	must.Do(t, late.SetReadDeadline(time.Now().Add(time.Minute)))
	if r, err := http.ReadResponse(bufio.NewReader(late), nil); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("a connection that has waited for its turn: %v", err)
	}
}

func TestServerRefusesWhatIsTooLarge(t *testing.T) {
	listener := must.Get(ListenHTTP("127.0.0.1:0", DefaultHTTPLimits))(t)
	server := NewHTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		}
	}), DefaultHTTPLimits)
	go server.Serve(listener)
	defer server.Close()
	url := "http://" + listener.Addr().String()
	for _, test := range []struct{ size, want int }{{httpMaxBodyBytes, 200}, {httpMaxBodyBytes + 1, 413}} {
		if got := status(t, http.MethodPost, url, strings.NewReader(strings.Repeat("x", test.size))); got != test.want {
			t.Errorf("a body of %d bytes: %d, want %d", test.size, got, test.want)
		}
	}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	request.Header.Set("X", strings.Repeat("x", httpMaxHeaderBytes+8<<10)) // net/http adds 4 KiB of room
	response := must.Get(http.DefaultClient.Do(request))(t)
	response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers of %d bytes: %d", httpMaxHeaderBytes+8<<10, response.StatusCode)
	}
	for name, limit := range map[string]time.Duration{
		"headers": server.ReadHeaderTimeout, "reading": server.ReadTimeout, "writing": server.WriteTimeout, "idle": server.IdleTimeout,
	} {
		if limit <= 0 || limit > 5*time.Minute {
			t.Errorf("%s may take %v", name, limit)
		}
	}
}

// TestHostileRequests sends the metrics and health what no client should, beside more idle connections than there may
// be.
func TestHostileRequests(t *testing.T) {
	short := 300 * time.Millisecond
	limits := HTTPLimits{Read: short, Write: short, Idle: short, Connections: 32}
	all, health := serving(t, limits)
	for addr, path := range map[string]string{all: "/metrics", health: "/readyz"} {
		torture.ThrowRequests(t, addr, torture.Requests(path, path), 2*limits.Connections)
		if got := status(t, http.MethodGet, "http://"+addr+"/healthz", nil); got != http.StatusOK {
			t.Errorf("after hostile requests health answers %d", got)
		}
	}
}

// Health is served where metrics are not.
func TestServeWithHealthAlone(t *testing.T) {
	busy := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer busy.Close()
	rt := NewRuntime(slog.New(slog.DiscardHandler))
	worked := errors.New("worked")
	work := func(context.Context) error { return worked }
	if err := Serve(t.Context(), Process{HealthAddr: "127.0.0.1:0"}, rt, work); !errors.Is(err, worked) {
		t.Errorf("health alone: %v", err)
	}
	err := Serve(t.Context(), Process{HTTPAddr: "127.0.0.1:0", HealthAddr: busy.Addr().String()}, rt, work)
	if err == nil || !strings.Contains(err.Error(), `HEALTH_ADDR is "`+busy.Addr().String()+`"`) {
		t.Errorf("a port in use: %v", err)
	}
}
