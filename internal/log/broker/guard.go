package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// guardedListener protects the embedded broker from its clients. kfake has three weaknesses. It allocates the length in
// the head of a request, and a TLS greeting claims 369 MB. It panics at an unknown request key. It does not expire a
// member of a consumer group whose connection breaks during a join: such a ghost keeps its lanes for ever.
type guardedListener struct {
	net.Listener
	broker *Broker
}

func (l *guardedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return newGuardedConn(conn, l.broker), nil
}

// guardedConn checks the head of every request read through it: its length, key, version and number. It holds an answer
// back until the data that it reports is on the disk.
type guardedConn struct {
	net.Conn
	broker *Broker
	lost   int64 // entries that could not be written before the connection was there
	head   [requestHead]byte
	have   int   // bytes of head that were read
	rest   int64 // bytes of the request that come after the head

	mu       sync.Mutex
	answered chan struct{}    // closed when no member waits for an answer
	pending  []pendingRequest // in the order of their answers
}

// requestHead is the length of the common beginning of every request.
const requestHead = 12

func newGuardedConn(conn net.Conn, b *Broker) *guardedConn {
	c := &guardedConn{Conn: conn, broker: b, answered: make(chan struct{})}
	if b.storage != nil {
		c.lost = b.storage.lost.Load()
	}
	close(c.answered)
	return c
}

// Read passes on valid Kafka protocol. When the client is gone, Read waits with the error until kfake has answered the
// client's join or sync. kfake then believes that the member has the answer, and expires it for lack of heartbeats.
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

// Write passes on an answer. kfake writes each with one call, in the order of the requests.
func (c *guardedConn) Write(p []byte) (int, error) {
	c.settle()
	if c.broker.storage == nil {
		return c.Conn.Write(p)
	}
	c.mu.Lock()
	request, rest := answeredBy(c.pending, p)
	c.pending = rest
	c.mu.Unlock()
	out, err := c.truthful(request, p)
	if err == nil {
		_, err = c.Conn.Write(out)
	}
	if err != nil {
		return 0, err // which ends the connection
	}
	return len(p), nil
}

// truthful returns an answer that stays true after a kill and a loss of power. It waits for the disk, and checks for
// write errors before and after.
func (c *guardedConn) truthful(request pendingRequest, answer []byte) ([]byte, error) {
	s := c.broker.storage
	if slices.Contains(silent, request.key) {
		return answer, s.failure()
	}
	out, err := c.broker.amend(request, answer)
	if err == nil {
		err = s.await(request, answer)
	}
	if err == nil && s.lost.Load() != c.lost {
		err = errLost
	}
	return out, err
}

var errLost = errors.New("the entry of a group or producer could not be written")

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
			if err := c.begin(); err != nil {
				return err
			}
			c.rest = int64(binary.BigEndian.Uint32(c.head[:])) - (requestHead - 4)
			if c.rest == 0 {
				c.have = 0
			}
		}
		n := min(c.rest, int64(len(p)))
		p = p[n:]
		if c.rest -= n; c.rest == 0 {
			c.have = 0
		}
	}
	return nil
}

func (c *guardedConn) begin() error {
	be := binary.BigEndian
	key := kmsg.Key(be.Uint16(c.head[4:]))
	if kmsg.RequestForKey(int16(key)) == nil {
		return fmt.Errorf("not the Kafka protocol: a request with key %d", int16(key))
	}
	c.mu.Lock()
	if len(c.pending) == maxPending {
		c.pending = c.pending[1:]
	}
	c.pending = append(c.pending, pendingRequest{key, int16(be.Uint16(c.head[6:])), be.Uint32(c.head[8:])})
	c.mu.Unlock()
	if key == kmsg.JoinGroup || key == kmsg.SyncGroup {
		c.await()
	}
	return nil
}
