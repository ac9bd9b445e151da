package broker

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/testing/must"
)

func TestStartRefuses(t *testing.T) {
	dir := t.TempDir()
	b := startBroker(t, Options{DataDir: dir})
	file := dir + "/file"
	must.Do(t, os.WriteFile(file, nil, 0o600))
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"a port in use":           {Options{Addr: b.Addr()}, b.Addr() + " is in use"},
		"a directory in use":      {Options{DataDir: dir}, dir + " is in use"},
		"a file as directory":     {Options{DataDir: file}, file},
		"an address without port": {Options{Addr: "127.0.0.1"}, `"127.0.0.1"`},
		"a port out of range":     {Options{Addr: "127.0.0.1:70000"}, "70000"},
		"the open network":        {Options{Addr: "0.0.0.0:0"}, "loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Start(c.o)
			if err == nil {
				_ = b.Close()
				t.Fatal("started")
			}
			if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %q, want one line with %q", err, c.want)
			}
		})
	}
	if errno := syscall.EADDRINUSE; !errors.Is(explainStart(Options{}, errno), errno) {
		t.Error("the cause is lost")
	}
}

// TestCloseTwice ends a broker on a full disk twice: the second call returns what the first one did.
func TestCloseTwice(t *testing.T) {
	var full atomic.Bool
	b := must.Get(Start(Options{DataDir: t.TempDir(), disk: fullDisk(&full)}))(t)
	full.Store(true)
	first, second := b.Close(), b.Close()
	if first == nil || !errors.Is(second, first) {
		t.Errorf("got %v, then %v", first, second)
	}
}

// TestGarbageOnTheBrokersPort sends what is not the Kafka protocol. The broker must survive it and serve others.
func TestGarbageOnTheBrokersPort(t *testing.T) {
	b := startBroker(t, Options{})
	for name, garbage := range map[string]string{
		"http":                  "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"a tls greeting":        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"a length of 4 GiB":     "\xff\xff\xff\xff\x00\x12\x00\x00",
		"a length of nothing":   "\x00\x00\x00\x00\x00\x12\x00\x00",
		"an unknown request":    "\x00\x00\x00\x10\x7f\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a negative request":    "\x00\x00\x00\x10\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a request without end": "\x00\x00\x00\x10\x00\x03\x00\x00",
		"a version of tomorrow": "\x00\x00\x00\x10\x00\x03\x7f\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"a negative version":    "\x00\x00\x00\x10\x00\x03\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		"nonsense for metadata": "\x00\x00\x00\x10\x00\x03\x00\x09\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff",
		"nonsense for produce":  "\x00\x00\x00\x10\x00\x00\x00\x08\x00\x00\x00\x00\xff\xff\x00\x00\x7f\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			conn := must.Get(net.Dial("tcp", b.Addr()))(t)
			defer func() { _ = conn.Close() }()
			must.Get(io.WriteString(conn, garbage))(t)
			if name == "a request without end" {
				return // the broker waits for the rest
			}
			must.Do(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the broker neither answers nor hangs up")
			}
		})
	}
	c := dial(t, b)
	c.create(t, "pairs", nil)
	c.put(t, "pairs", "fine")
	if got := values(t, b, "pairs"); len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

func FuzzGuard(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x10\x00\x03\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"), 3)
	f.Add([]byte("\x00\x00\x00\x08\x00\x12\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x12\x00\x00\x00\x00\x00\x00"), 1)
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"), 7)
	f.Fuzz(func(t *testing.T, stream []byte, step int) {
		step = max(step, 1)
		whole, parts := newGuardedConn(nil, &Broker{}), newGuardedConn(nil, &Broker{})
		want := whole.look(stream)
		var got error
		for rest := stream; len(rest) > 0 && got == nil; {
			n := min(step, len(rest))
			got = parts.look(rest[:n])
			rest = rest[n:]
		}
		if (want == nil) != (got == nil) {
			t.Errorf("read at once: %v; in parts of %d: %v", want, step, got)
		}
	})
}
