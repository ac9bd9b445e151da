package stream

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// guardedListener protects the embedded broker from what is not the Kafka protocol. kfake believes the length at the
// head of a request, and allocates as much (a TLS greeting claims 369 MB), and it panics at a request key that it does
// not know.
type guardedListener struct{ net.Listener }

func (l *guardedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guardedConn{Conn: conn}, nil
}

// guardedConn looks at the head of every request that is read through it: 4 bytes of length and 2 of key.
type guardedConn struct {
	net.Conn
	head [6]byte
	have int   // bytes of head that were read
	rest int64 // bytes of the request that come after the head
}

func (c *guardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if gerr := c.look(p[:n]); gerr != nil {
		return 0, gerr
	}
	return n, err
}

func (c *guardedConn) look(p []byte) error {
	for len(p) > 0 {
		if c.have < len(c.head) {
			n := copy(c.head[c.have:], p)
			c.have += n
			p = p[n:]
			if c.have == 4 || c.have > 4 && c.have-n < 4 {
				if size := binary.BigEndian.Uint32(c.head[:]); size < 8 || size > maxRequestBytes {
					return fmt.Errorf("not the Kafka protocol: a request of %d bytes", size)
				}
			}
			if c.have < len(c.head) {
				return nil
			}
			key := int16(binary.BigEndian.Uint16(c.head[4:]))
			if kmsg.RequestForKey(key) == nil {
				return fmt.Errorf("not the Kafka protocol: a request with key %d", key)
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
