package ranks

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"time"
)

// maxStrangers bounds the handshakes at a time.
const maxStrangers = 64

// door is where ranks come in.
type door struct {
	listener net.Listener
	tls      *tls.Config
	options  Options
	admit    func(hello) error
	enter    func(context.Context, *link) // takes over a link; it may wait until ctx ends
}

// serve shakes hands with whoever comes, until ctx ends. It then waits for all handshakes.
func (d door) serve(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		<-ctx.Done()
		_ = d.listener.Close() // ends Accept
	})
	guests := make(chan struct{}, maxStrangers)
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			d.log().Warn("accepting a rank", "stage", "ranks", "err", err)
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case guests <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			return
		}
		working.Go(func() {
			l := d.greet(ctx, conn)
			<-guests
			if l != nil {
				d.enter(ctx, l)
			}
		})
	}
}

func (d door) log() *slog.Logger { return d.options.Log }

// greet makes a link of a connection; nil: it refuses it.
func (d door) greet(ctx context.Context, conn net.Conn) *link {
	over, err := secure(ctx, conn, d.tls, true)
	if err != nil {
		d.log().Warn("refusing a stranger", "stage", "ranks", "address", conn.RemoteAddr().String(), "err", err)
		return nil
	}
	hurry := context.AfterFunc(ctx, func() { _ = over.SetDeadline(time.Now()) })
	h, err := greet(over, over.binding, d.options, d.admit)
	if !hurry() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		d.log().Warn("refusing a rank", "stage", "ranks", "rank", h.Rank, "address", conn.RemoteAddr().String(), "err", err)
		_ = over.Close()
		return nil
	}
	l := newLink(h.Rank, over, d.options.Silence)
	l.address = h.Address
	return l
}
