package ranks

import (
	"container/list"
	"net"
	"sync"
)

// Bounds on connections of strangers: those without a TLS hello, and those with one that are not known yet. In each
// group the oldest makes room for the next, so silent strangers keep no rank out.
const (
	maxSilent    = 1024
	maxStrangers = 64
)

// pending holds connections that wait for the peer.
type pending struct {
	most int

	mu  sync.Mutex
	all list.List // of net.Conn, in the order of arrival
}

// enter takes a connection, until it leaves. When there are too many, it closes the oldest.
func (c *pending) enter(conn net.Conn) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	place := c.all.PushBack(conn)
	if c.all.Len() > c.most {
		oldest := c.all.Remove(c.all.Front()).(net.Conn)
		_ = oldest.Close() // its handshake sees it
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all.Remove(place) // unless it had to make room
	}
}
