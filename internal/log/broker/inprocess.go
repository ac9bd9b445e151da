package broker

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Clients in the process of an embedded broker reach it through memory. A pipe costs one copy of the bytes. A connection of
// the system costs two, and a system call for each.

// inProcess holds the brokers of this process by their addresses.
var inProcess sync.Map

// pipeListener also accepts the ends of pipes that clients in this process dial.
type pipeListener struct {
	net.Listener
	accepted chan accepted
	closed   chan struct{}
	close    sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

func newPipeListener(l net.Listener) *pipeListener {
	p := &pipeListener{Listener: l, accepted: make(chan accepted), closed: make(chan struct{})}
	inProcess.Store(l.Addr().String(), p)
	go func() {
		for {
			conn, err := l.Accept()
			if !p.hand(accepted{conn, err}) && err == nil {
				_ = conn.Close() // nobody serves it
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// hand gives a connection to Accept. It returns false when the listener is closed.
func (p *pipeListener) hand(a accepted) bool {
	select {
	case p.accepted <- a:
		return true
	case <-p.closed:
		return false
	}
}

// Accept implements net.Listener.
func (p *pipeListener) Accept() (net.Conn, error) {
	select {
	case a := <-p.accepted:
		return a.conn, a.err
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipeListener) Close() error {
	p.close.Do(func() {
		inProcess.CompareAndDelete(p.Addr().String(), p)
		close(p.closed)
	})
	return p.Listener.Close()
}

// DialInProcess connects to a broker of this process. It returns nil when there is none at the address.
func DialInProcess(ctx context.Context, address string) (net.Conn, error) {
	l, ok := inProcess.Load(address)
	if !ok {
		return nil, nil
	}
	ours, theirs := net.Pipe()
	select {
	case l.(*pipeListener).accepted <- accepted{conn: theirs}:
		return ours, nil
	case <-l.(*pipeListener).closed: // nothing listens at the address any more
		return nil, errors.Join(ours.Close(), theirs.Close())
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), ours.Close(), theirs.Close())
	}
}
