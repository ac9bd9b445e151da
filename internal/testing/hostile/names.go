package hostile

import (
	"context"
	"net"
	"net/netip"
	"sync/atomic"

	"golang.org/x/net/dns/dnsmessage"
)

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
