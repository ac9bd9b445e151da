package broker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// patientListener accepts connections until it is closed. kfake would stop at any error, so a process that briefly ran
// out of file descriptors would never accept again.
type patientListener struct {
	net.Listener
	logger *slog.Logger
	closed chan struct{}
	close  sync.Once
}

// longestPause bounds the pause between two attempts to accept a connection.
const longestPause = time.Second

// Accept implements net.Listener.
func (l *patientListener) Accept() (net.Conn, error) {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, longestPause) {
		conn, err := l.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		l.logger.Warn("the embedded broker cannot accept a connection, and tries again", keyErr, err)
		select {
		case <-time.After(pause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *patientListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Clients in the process of an embedded broker reach it through memory. A pipe costs one copy of the bytes. A
// connection of the operating system costs two, and a system call for each.

// inProcess holds the brokers of this process by their addresses.
var inProcess sync.Map

// pipeListener also accepts the ends of pipes that clients in this process dial.
type pipeListener struct {
	net.Listener
	failure  func() error // error of the broker
	accepted chan accepted
	closed   chan struct{}
	close    sync.Once
}

type accepted struct {
	conn net.Conn
	err  error
}

func newPipeListener(l net.Listener, failure func() error) *pipeListener {
	p := &pipeListener{Listener: l, failure: failure, accepted: make(chan accepted), closed: make(chan struct{})}
	inProcess.Store(l.Addr().String(), p)
	go func() {
		for {
			conn, err := l.Accept()
			if !p.hand(accepted{conn, err}) && err == nil {
				_ = conn.Close() // the listener is closed
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

// DialInProcess connects to a broker of this process. It returns nil if there is none at the address, and [ErrStopped]
// if the disk has stopped the broker.
func DialInProcess(ctx context.Context, address string) (net.Conn, error) {
	l, ok := inProcess.Load(address)
	if !ok {
		return nil, nil
	}
	if err := l.(*pipeListener).failure(); err != nil {
		return nil, err
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
