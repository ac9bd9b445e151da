package stream

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// guardedListener protects the embedded broker from its clients. kfake has three weaknesses. It allocates the length at
// the head of a request, and a TLS greeting claims 369 MB. It panics at a request key that it does not know. It does not
// expire a member of a consumer group whose connection breaks during a join: such a ghost keeps its lanes for ever.
type guardedListener struct{ net.Listener }

func (l *guardedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newGuardedConn(conn), nil
}

// guardedConn looks at the head of every request that is read through it: 4 bytes of length and 2 of key.
type guardedConn struct {
	net.Conn
	head [6]byte
	have int   // bytes of head that were read
	rest int64 // bytes of the request that come after the head

	mu       sync.Mutex
	answered chan struct{} // closed when no member waits for an answer
}

func newGuardedConn(conn net.Conn) *guardedConn {
	c := &guardedConn{Conn: conn, answered: make(chan struct{})}
	close(c.answered)
	return c
}

// Read passes on what is the Kafka protocol. When the client is gone, Read waits with the error until kfake has
// answered the client's join or sync. kfake then believes that the member has the answer, and expires it for want of
// heartbeats.
func (c *guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if gerr := c.look(p[:n]); gerr != nil {
		return 0, gerr
	}
	if err != nil && n == 0 {
		c.mu.Lock()
		answered := c.answered
		c.mu.Unlock()
		<-answered
	}
	return n, err
}

// Write passes on an answer. A client has one request at a time in hand.
func (c *guardedConn) Write(p []byte) (int, error) {
	c.settle()
	return c.Conn.Write(p)
}

// Close ends the connection.
func (c *guardedConn) Close() error {
	c.settle()
	return c.Conn.Close()
}

func (c *guardedConn) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.answered:
	default:
		close(c.answered)
	}
}

func (c *guardedConn) await() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.answered:
		c.answered = make(chan struct{})
	default:
	}
}

func (c *guardedConn) look(p []byte) error {
	for len(p) > 0 {
		if c.have < len(c.head) {
			n := copy(c.head[c.have:], p)
			c.have += n
			p = p[n:]
			if c.have >= 4 && c.have-n < 4 {
				if size := binary.BigEndian.Uint32(c.head[:]); size < 8 || size > maxRequestBytes {
					return fmt.Errorf("not the Kafka protocol: a request of %d bytes", size)
				}
			}
			if c.have < len(c.head) {
				return nil
			}
			if err := c.begin(kmsg.Key(binary.BigEndian.Uint16(c.head[4:]))); err != nil {
				return err
			}
			c.rest = int64(binary.BigEndian.Uint32(c.head[:])) - 2
		}
		n := min(c.rest, int64(len(p)))
		p = p[n:]
		if c.rest -= n; c.rest == 0 {
			c.have = 0
		}
	}
	return nil
}

func (c *guardedConn) begin(key kmsg.Key) error {
	if kmsg.RequestForKey(int16(key)) == nil {
		return fmt.Errorf("not the Kafka protocol: a request with key %d", int16(key))
	}
	if key == kmsg.JoinGroup || key == kmsg.SyncGroup {
		c.await()
	}
	return nil
}
