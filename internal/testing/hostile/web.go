package hostile

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// hostsOfATrap is the number of hosts that each trap has.
const hostsOfATrap = 2

// Web is a number of hosts, each with a trap.
type Web struct {
	traps []trap
	bases []string // what the URLs of each host begin with
	names *nameServer

	stop    chan struct{}
	serving sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]bool
}

// trap is what a host does.
type trap struct {
	name   string
	robots reply // to requests for robots.txt; nil: there is none
	page   reply // to every other request; nil: robots.txt is never passed
	raw    reply // instead of both: what becomes of a connection before it has said anything
	scheme string
	host   string // instead of 127.0.0.1
}

// reply writes what a host answers. It may use the connection as it likes, until the web stops.
type reply func(w *Web, c net.Conn, path string)

// New starts the hosts, until the end of the test.
func New(t testing.TB) *Web {
	t.Helper()
	w := &Web{traps: traps(), stop: make(chan struct{}), open: map[net.Conn]bool{}}
	names := must.Get(newNameServer(w))(t)
	w.names = names
	var listeners []net.Listener
	for range hostsOfATrap {
		for _, trap := range w.traps {
			l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			listeners = append(listeners, l)
			w.bases = append(w.bases, trap.base(l))
			w.serving.Go(func() { w.serve(l, trap) })
		}
	}
	t.Cleanup(func() {
		close(w.stop)
		for _, l := range listeners {
			must.Check(t, l.Close())
		}
		must.Check(t, w.names.Close())
		w.mu.Lock()
		for c := range w.open {
			c.Close()
		}
		w.mu.Unlock()
		w.serving.Wait()
	})
	return w
}

func (t trap) base(l net.Listener) string {
	port := l.Addr().(*net.TCPAddr).Port
	scheme, host := t.scheme, t.host
	if scheme == "" {
		scheme = "http"
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return fmt.Sprintf("%s://%s:%d/", scheme, host, port)
}

// Names returns the address of the name server.
func (w *Web) Names() string { return w.names.LocalAddr().String() }

// Hosts returns the number of hosts.
func (w *Web) Hosts() int { return len(w.bases) }

// URLs returns so many addresses, of each host in turn.
func (w *Web) URLs(n int) []string {
	urls := make([]string, n)
	for i := range urls {
		urls[i] = fmt.Sprintf("%s%d.jpg", w.bases[i%len(w.bases)], i)
	}
	return urls
}

func (w *Web) serve(l net.Listener, t trap) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // the test is over
		}
		w.mu.Lock()
		w.open[c] = true
		w.mu.Unlock()
		w.serving.Go(func() {
			defer func() {
				w.mu.Lock()
				delete(w.open, c)
				w.mu.Unlock()
				c.Close()
			}()
			w.answer(c, t)
		})
	}
}

// answer answers one request. A host ends every connection behind its answer.
func (w *Web) answer(c net.Conn, t trap) {
	if t.raw != nil {
		t.raw(w, c, "")
		return
	}
	r, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return // the crawl has gone
	}
	switch {
	case r.URL.Path != "/robots.txt":
		t.page(w, c, r.URL.Path)
	case t.robots == nil:
		say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")(w, c, "")
	default:
		t.robots(w, c, r.URL.Path)
	}
}

// say sends a text and ends the connection.
func say(text string) reply {
	return func(_ *Web, c net.Conn, _ string) { send(c, text) }
}

// head is that of an answer which ends with the connection.
func head(status string, headers ...string) string {
	return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + strings.Join(append(headers, "", ""), "\r\n")
}

// send reports whether the crawl still listens.
func send(c net.Conn, text string) bool {
	_, err := io.WriteString(c, text)
	return err == nil
}

// hold sends a text and then nothing, until the crawl goes.
func hold(text string) reply {
	return func(_ *Web, c net.Conn, _ string) {
		if send(c, text) {
			_, _ = io.Copy(io.Discard, c) // ends with the connection, whoever ends it
		}
	}
}

// endless sends a text, and a second one again and again.
func endless(text, again string) reply {
	return func(_ *Web, c net.Conn, _ string) {
		for ok := send(c, text); ok; {
			ok = send(c, again)
		}
	}
}

// reset sends a text and resets the connection.
func reset(text string) reply {
	return func(_ *Web, c net.Conn, _ string) {
		if send(c, text) {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // the connection may have gone
			}
		}
	}
}

// redirect sends the crawl to where a function says.
func redirect(to func(w *Web, path string) string) reply {
	return func(w *Web, c net.Conn, path string) {
		send(c, head("302 Found", "Location: "+to(w, path), "Content-Length: 0"))
	}
}

// Names that the name server knows. It says of any other that there is none.
const (
	changing = "changing.test" // leads to loopback, then into a network, and so on
	silent   = "silent.test"   // gets no answer
)

// nameServer answers questions for addresses, over UDP.
type nameServer struct {
	net.PacketConn
	asked atomic.Int64
}

func newNameServer(w *Web) (*nameServer, error) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &nameServer{PacketConn: conn}
	w.serving.Go(s.serve)
	return s, nil
}

// Resolver returns one that asks a name server alone.
func Resolver(address string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", address)
	}}
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.ReadFrom(buf)
		if err != nil {
			return // the test is over
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:n]); err != nil || len(m.Questions) == 0 {
			continue // no question
		}
		if raw, ok := s.answer(m); ok {
			if _, err := s.WriteTo(raw, from); err != nil {
				return // the test is over
			}
		}
	}
}

// answer returns what to say to a question, if anything.
func (s *nameServer) answer(m dnsmessage.Message) ([]byte, bool) {
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}
	m.Additionals = nil
	switch q.Name.String() {
	case silent + ".":
		return nil, false
	case changing + ".":
		if q.Type == dnsmessage.TypeA {
			address := netip.MustParseAddr("127.0.0.1")
			if s.asked.Add(1)%2 == 0 {
				address = netip.MustParseAddr("169.254.169.254")
			}
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}, Body: &dnsmessage.AResource{A: address.As4()}}}
		}
	default:
		m.RCode = dnsmessage.RCodeNameError
	}
	raw, err := m.Pack()
	return raw, err == nil
}
