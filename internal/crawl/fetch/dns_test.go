package fetch_test

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// nameServer answers questions for the address of any name with one address after another; the last one stays.
type nameServer struct {
	net.PacketConn
	mu      sync.Mutex
	answers []netip.Addr
	asked   int
}

// newNameServer makes the process ask a server of its own, until the end of the test.
func newNameServer(t *testing.T, answers ...string) *nameServer {
	t.Helper()
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	s := &nameServer{PacketConn: conn}
	for _, a := range answers {
		s.answers = append(s.answers, netip.MustParseAddr(a))
	}
	usual := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
	var serving sync.WaitGroup
	serving.Go(func() { s.serve(t) })
	t.Cleanup(func() {
		net.DefaultResolver = usual
		must.Check(t, conn.Close())
		serving.Wait()
	})
	return s
}

func (s *nameServer) serve(t *testing.T) {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.ReadFrom(buf)
		if err != nil {
			return // the test is over
		}
		var m dnsmessage.Message
		if err := m.Unpack(buf[:n]); err != nil {
			t.Error(err)
			return
		}
		m.Header = dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true}
		m.Additionals = nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
				Body:   &dnsmessage.AResource{A: s.next().As4()},
			}}
		}
		raw, err := m.Pack()
		if err == nil {
			_, err = s.WriteTo(raw, from)
		}
		must.Check(t, err)
	}
}

func (s *nameServer) next() netip.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	return a
}

// count returns how often a name was asked for.
func (s *nameServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// TestChangesOfDNS: a name leads to the crawl's server when it is asked for first, and inside of a network from then
// on. The address is judged at every connection.
func TestChangesOfDNS(t *testing.T) {
	w := newWeb(t)
	w.Config.SetKeepAlivesEnabled(false) // every request connects anew
	at := must.Get(url.Parse(w.URL))(t)
	for _, inside := range []string{"169.254.169.254", "10.1.2.3", "127.0.0.2"} {
		names := newNameServer(t, "127.0.0.1", inside)
		o := options()
		o.IgnoreRobots, o.Threads = true, 1
		name := "http://crawl.test:" + at.Port()
		got := crawl(t, o, w, name+"/ok/1", name+"/ok/2", name+"/to-ok")
		want := map[string]string{name + "/ok/1": "image", name + "/ok/2": "forbidden_address", name + "/to-ok": "forbidden_address"}
		for u, outcome := range want {
			if got[u] != outcome {
				t.Errorf("%s with %s from the second answer on: %q, want %q", u, inside, got[u], outcome)
			}
		}
		if n := names.count(); n < 3 {
			t.Errorf("the name was asked for %d times, want one for each connection", n)
		}
	}
	newNameServer(t, "127.0.0.1", "127.0.0.1", "169.254.169.254")
	o := options()
	o.IgnoreRobots, o.Threads = true, 1
	name := "http://crawl.test:" + at.Port()
	if got := crawl(t, o, w, name+"/ok/1", name+"/to-ok"); got[name+"/ok/1"] != "image" || got[name+"/to-ok"] != "forbidden_address" {
		t.Errorf("a change between a request and its redirect: %v", got)
	}
}
