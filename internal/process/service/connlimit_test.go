package service

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// listening returns the address of a server with few places, whose bodies may take long.
func listening(t *testing.T, places int) (addr string) {
	t.Helper()
	limits := HTTPLimits{Read: time.Hour, Write: time.Hour, Idle: time.Hour, Connections: places}
	listener := must.Get(ListenHTTP("127.0.0.1:0", limits))(t)
	large := make([]byte, 1<<20)
	server := NewUploadServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range map[string]int{"/large": 64}[r.URL.Path] {
			if _, err := w.Write(large); err != nil {
				return
			}
		}
		if _, err := io.ReadAll(r.Body); errors.Is(err, os.ErrDeadlineExceeded) && !ClientOf(r.Context()).Ended() {
			t.Errorf("the body ends with %v", err)
		}
	}), limits)
	done := make(chan error, 1)
	go func() { done <- ServeOn(server, listener, "a test") }()
	t.Cleanup(func() {
		server.Close()
		must.Check(t, <-done)
	})
	return listener.Addr().String()
}

// say opens a connection and sends something.
func say(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	conn := must.Get(net.Dial("tcp", addr))(t)
	t.Cleanup(func() { conn.Close() })
	must.Get(io.WriteString(conn, text))(t)
	return conn
}

// TestClientsThatWaitKeepNobodyOut: clients that keep the server waiting, in any way and number, keep no other client
// out.
func TestClientsThatWaitKeepNobodyOut(t *testing.T) {
	const places = 3
	post := "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n"
	for name, test := range map[string]struct {
		text  string
		count int
	}{
		"nothing":               {"", mostStrangers + 10},
		"half heads":            {"GET / HTTP/1.1\r\nHost: ", mostStrangers + 10},
		"half bodies":           {post + strings.Repeat("x", 100_000), 3 * places},
		"bodies without a byte": {post, 3 * places},
		"idle ones":             {"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 20 * places},
		"deaf ones":             {"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 2 * places},
		"half second heads":     {"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HT", 2 * places},
	} {
		t.Run(name, func(t *testing.T) {
			addr := listening(t, places)
			for range test.count {
				say(t, addr, test.text)
			}
			good := http.Client{Timeout: time.Minute} // it ends a test that hangs, and is no promise
			for range 3 {
				response, err := good.Post("http://"+addr+"/", "text/plain", strings.NewReader("good"))
				if err != nil {
					t.Fatal(err)
				}
				if response.Body.Close(); response.StatusCode != http.StatusOK {
					t.Errorf("a good request is answered with %d", response.StatusCode)
				}
			}
		})
	}
}

// TestTheOldestStrangerGoesFirst: of connections that have sent no whole head, the oldest goes, and the others stay.
func TestTheOldestStrangerGoesFirst(t *testing.T) {
	addr := listening(t, 3)
	oldest, second := say(t, addr, "GET "), say(t, addr, "GET ")
	for range mostStrangers - 1 {
		say(t, addr, "")
	}
	must.Do(t, oldest.SetReadDeadline(time.Now().Add(time.Minute)))
	if _, err := oldest.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest connection is open: %v", err)
	}
	must.Get(io.WriteString(second, "/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))(t)
	if r, err := http.ReadResponse(bufio.NewReader(second), nil); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("the second oldest ends its head, and gets %v", err)
	}
}

// TestClientsThatWorkStay: a client is overdue when the server waits for it, and neither while the server works nor
// while its body comes quickly enough.
func TestClientsThatWorkStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &places{most: 1, taken: make(map[*Client]struct{})}
		c := &Client{of: p}
		for range 100 {
			for range 4 { // parts of a quantum
				c.await()
				time.Sleep(bodyPatience/4 - 1)
				c.got(quantum / 4)
				time.Sleep(time.Hour) // the server works on it
				if c.Overdue() > 0 {
					t.Fatal("a client that sends quickly is overdue")
				}
			}
		}
		for range 4 {
			c.await()
			time.Sleep(bodyPatience/4 + 1)
			c.got(1)
		}
		c.await()
		if c.Overdue() <= 0 {
			t.Error("a client that sends byte by byte is not overdue")
		}
		c.got(quantum)
		c.rest()
		c.await()
		time.Sleep(time.Minute) // the last bytes of its answer
		c.got(100)
		if time.Sleep(idlePatience); c.Overdue() > 0 {
			t.Error("a client has no time for its next request")
		}
		if time.Sleep(time.Nanosecond); c.Overdue() <= 0 {
			t.Error("an idle client is not overdue")
		}
	})
}
