package torture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// httpPatience ends a test whose server keeps a connection. It is no promise.
const httpPatience = time.Minute

// mostTaken bounds the bytes that a server takes of a request which never ends, with the buffers of both systems.
const mostTaken = 64 << 20

// Request is what a hostile client sends over a connection of its own.
type Request struct {
	Name    string
	Bytes   string
	Endless string // sent again and again behind that, until the server ends the connection
	Slow    bool   // Endless goes out byte by byte
	Deaf    bool   // the client reads no answer
	Refused bool   // the answer, if there is one, is no success
}

// Requests lists hostile requests to a server that answers GET at one path and takes bodies at another.
func Requests(get, post string) []Request {
	return append(append(slow(get, post), malformed(get, post)...), paths()...)
}

func slow(get, post string) []Request {
	head := "GET " + get + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	body := "POST " + post + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	return []Request{
		{Name: "nothing"},
		{Name: "half a line", Bytes: "GE"},
		{Name: "half a head", Bytes: head},
		{Name: "a slow line", Bytes: "GET /", Endless: "x", Slow: true, Refused: true},
		{Name: "a slow header", Bytes: head + "X: ", Endless: "x", Slow: true, Refused: true},
		{Name: "slow headers", Bytes: head, Endless: "X: x\r\n", Slow: true, Refused: true},
		{Name: "half a body", Bytes: body + "Content-Length: 1000\r\n\r\nx=", Refused: true},
		{Name: "a slow body", Bytes: body + "Content-Length: 1000000\r\n\r\n", Endless: "x", Slow: true, Refused: true},
		{Name: "slow chunks", Bytes: body + "Transfer-Encoding: chunked\r\n\r\n", Endless: "1\r\nx\r\n", Slow: true, Refused: true},
		{Name: "an endless line", Bytes: "GET /", Endless: strings.Repeat("x", 4096), Refused: true},
		{Name: "an endless header", Bytes: head + "X: ", Endless: strings.Repeat("x", 4096), Refused: true},
		{Name: "endless headers", Bytes: head, Endless: strings.Repeat("X: x\r\n", 500), Refused: true},
		{Name: "an endless body", Bytes: body + "Content-Length: 1000000000000\r\n\r\n", Endless: strings.Repeat("x", 4096), Refused: true},
		{Name: "endless chunks", Bytes: body + "Transfer-Encoding: chunked\r\n\r\n", Endless: "800\r\n" + strings.Repeat("x", 2048) + "\r\n", Refused: true},
		{Name: "endless small chunks", Bytes: body + "Transfer-Encoding: chunked\r\n\r\n", Endless: strings.Repeat("1\r\nx\r\n", 500), Refused: true},
		{Name: "an endless extension of a chunk", Bytes: body + "Transfer-Encoding: chunked\r\n\r\n1;", Endless: strings.Repeat("x", 4096), Refused: true},
		{Name: "endless trailers", Bytes: body + "Trailer: X\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", Endless: strings.Repeat("X: x\r\n", 500)},
		{Name: "a body where none belongs", Bytes: head + "Content-Length: 1000000000000\r\n\r\n", Endless: strings.Repeat("x", 4096)},
		{Name: "requests and no ear", Endless: strings.Repeat(head+"\r\n", 50), Deaf: true},
		{Name: "idle", Bytes: head + "\r\n"},
		{Name: "many at once", Bytes: strings.Repeat(head+"\r\n", 1000)},
	}
}

func malformed(get, post string) []Request {
	refused := func(name, bytes string) Request { return Request{Name: name, Bytes: bytes, Refused: true} }
	line := "GET " + get + " HTTP/1.1\r\n"
	body := "POST " + post + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	return []Request{
		refused("a header of 1 MB", line+"Host: 127.0.0.1\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n"),
		refused("100,000 headers", line+"Host: 127.0.0.1\r\n"+strings.Repeat("X: x\r\n", 100_000)+"\r\n"),
		refused("no host", line+"\r\n"),
		refused("two hosts", line+"Host: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n"),
		refused("a host of spaces", line+"Host: a b\r\n\r\n"),
		refused("a zero in a header", line+"Host: 127.0.0.1\r\nX: a\x00b\r\n\r\n"),
		refused("a space before a colon", line+"Host: 127.0.0.1\r\nX : a\r\n\r\n"),
		refused("a header without colon", line+"Host: 127.0.0.1\r\nX\r\n\r\n"),
		refused("two lengths", body+"Content-Length: 3\r\nContent-Length: 30\r\n\r\nx=1"),
		refused("two lengths in one", body+"Content-Length: 3, 30\r\n\r\nx=1"),
		refused("a negative length", body+"Content-Length: -1\r\n\r\n"),
		refused("a length with a sign", body+"Content-Length: +3\r\n\r\nx=1"),
		refused("a length of 2^64", body+"Content-Length: 18446744073709551616\r\n\r\n"),
		refused("a length in hexadecimal", body+"Content-Length: 0x3\r\n\r\nx=1"),
		refused("an unknown coding", body+"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
		refused("two codings", body+"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n"),
		refused("chunked twice", body+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		refused("a chunk of no number", body+"Transfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n"),
		refused("a negative chunk", body+"Transfer-Encoding: chunked\r\n\r\n-1\r\nx\r\n0\r\n\r\n"),
		refused("a chunk of 2^64", body+"Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nx\r\n0\r\n\r\n"),
		refused("a chunk that is longer", body+"Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n"),
		refused("a method of no letters", "G\x01T "+get+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
		refused("HTTP 9.9", "GET "+get+" HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n"),
		refused("HTTP 0.9", "GET "+get+"\r\n\r\n"),
		refused("HTTP 2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
		refused("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("x", 100)),
		refused("Kafka", "\x00\x00\x00\x14\x00\x12\x00\x03\x00\x00\x00\x01\x00\x04test"),
		refused("a tunnel", "CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: 169.254.169.254:80\r\n\r\n"),
		refused("a trace", "TRACE "+get+" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
		{Name: "a length beside a coding", Bytes: body + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + line + "Host: 127.0.0.1\r\n\r\n"},
		{Name: "ranges", Bytes: line + "Host: 127.0.0.1\r\nRange: bytes=" + strings.TrimSuffix(strings.Repeat("0-,", 3000), ",") + "\r\n\r\n"},
		{Name: "another protocol", Bytes: line + "Host: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"},
		{Name: "an expectation", Bytes: body + "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n"},
	}
}

// paths lists requests for files that no server has.
func paths() []Request {
	var out []Request
	for _, path := range []string{
		"/../../../../etc/passwd", "/static/../../../../etc/passwd", "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/static/..%2f..%2f..%2fetc/passwd",
		"/static//etc/passwd", "/static/..%5c..%5cetc%5cpasswd", "/static/%00", "/static/../templates/login.html", "/templates/login.html",
		"/thumbs/..%2f..%2fetc%2fpasswd", "/replays/..%2f..%2f..%2fetc%2fpasswd", "/debug/pprof/heap", "//etc/passwd", "/%ff%fe", "/" + strings.Repeat("a/", 4000),
	} {
		out = append(out, Request{Name: "path " + path[:min(40, len(path))], Bytes: "GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", Refused: true})
	}
	return out
}

// ThrowRequests sends each request over a connection of its own, all at once, while others stay open and say nothing.
// It wants the server to end every one of them, and to succeed in none that is to be refused. The server's limits have
// to be small.
func ThrowRequests(t *testing.T, addr string, requests []Request, idle int) {
	t.Helper()
	for range idle {
		requests = append(requests, Request{Name: "idle from the start"})
	}
	var all sync.WaitGroup
	for _, r := range requests {
		all.Go(func() {
			if err := r.send(t.Context(), addr); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
		})
	}
	all.Wait()
}

// send returns what the server did wrong.
func (r Request) send(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(httpPatience)); err != nil {
		return err
	}
	written := make(chan error, 1)
	go func() { written <- r.write(conn) }()
	if r.Deaf {
		return <-written
	}
	answer, err := io.ReadAll(conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("the server does not end the connection")
	}
	if err := <-written; err != nil {
		return err
	}
	return r.judge(answer)
}

// write sends the bytes. Errors of a connection that the server has ended are what is wanted.
func (r Request) write(conn net.Conn) error {
	if _, err := io.WriteString(conn, r.Bytes); err != nil || r.Endless == "" {
		return nil //nolint:nilerr // the server has ended the connection
	}
	for taken := 0; taken < mostTaken; {
		part := r.Endless
		if r.Slow {
			<-time.After(10 * time.Millisecond)
			part = r.Endless[taken%len(r.Endless):][:1]
		}
		n, err := io.WriteString(conn, part)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.New("the server does not end the connection, and reads nothing more of it")
		}
		if err != nil {
			return nil //nolint:nilerr // the server has ended the connection
		}
		taken += n
	}
	return fmt.Errorf("the server has taken %d bytes and goes on", mostTaken)
}

func (r Request) judge(answer []byte) error {
	if bytes.Contains(answer, []byte("root:")) {
		return errors.New("the answer is a file of the system")
	}
	if !r.Refused || len(answer) == 0 {
		return nil
	}
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(answer)), nil)
	if err != nil {
		return nil //nolint:nilerr // HTTP 0.9 and others that get no whole answer
	}
	defer response.Body.Close()
	if response.StatusCode < 300 {
		return fmt.Errorf("the server answers %s", response.Status)
	}
	return nil
}
