package ranks

import (
	"container/list"
	"net"
	"sync"
)

// Bounds of the connections of strangers at a time: those that have said no hello in TLS, and those that have said one
// and are not known yet. Of each, the oldest makes room for the next, so strangers that are silent keep no rank out.
const (
	maxSilent    = 1024
	maxStrangers = 64
)

// pending is connections that wait for what the other end says.
type pending struct {
	most int

	mu  sync.Mutex
	all list.List // of net.Conn, in the order in which they came
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
