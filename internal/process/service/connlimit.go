package service

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// mostStrangers bounds the connections that have no place yet: they have sent no whole head, or wait for a place.
const mostStrangers = 1024

// For how long a client with a place may keep the server waiting while others wait for a place: with its body, of which
// it sends at least quantum in this time, or with its next request.
const (
	bodyPatience = 250 * time.Millisecond
	idlePatience = 700 * time.Millisecond
	quantum      = 64 << 10
)

// places is a listener whose connections have a place from the first whole head to their end. Of those without one, the
// oldest is ended when there are too many. When all places are taken, those go that keep the server waiting.
type places struct {
	net.Listener
	most int

	mu        sync.Mutex
	strangers list.List // of *Client, in the order in which they came
	waiting   list.List // of *Client: those of the strangers that have sent a whole head
	taken     map[*Client]struct{}
}

// Client is a connection to a server of this package.
type Client struct {
	net.Conn
	of    *places
	ended chan struct{}
	once  sync.Once

	// What follows is guarded by places.mu.
	stranger *list.Element // nil: it has a place, or has ended
	wait     *list.Element
	place    chan struct{} // closed when it gets a place
	idle     bool          // between two requests
	since    time.Time     // when the server began to wait for the client; zero: it does not
	waited   time.Duration // before that, for the quantum that it is sending
	bytes    int           // of that
	slow     bool          // its place was given to another
}

// Accept implements [net.Listener].
func (p *places) Accept() (net.Conn, error) {
	conn, err := p.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Client{Conn: conn, of: p, ended: make(chan struct{}), place: make(chan struct{})}
	p.mu.Lock()
	c.stranger = p.strangers.PushBack(c)
	var oldest *Client
	if p.strangers.Len() > mostStrangers {
		oldest = p.strangers.Front().Value.(*Client)
	}
	p.mu.Unlock()
	if oldest != nil {
		_ = oldest.Close()
	}
	return c, nil
}

// Close implements [net.Conn]. It gives the place to the next that waits.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.ended) })
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// leave takes a connection out of all lists.
func (p *places) leave(c *Client) {
	if c.stranger != nil {
		p.strangers.Remove(c.stranger)
		c.stranger = nil
	}
	if c.wait != nil {
		p.waiting.Remove(c.wait)
		c.wait = nil
	}
	delete(p.taken, c)
	p.seat()
}

// seat gives free places to those that wait.
func (p *places) seat() {
	for p.waiting.Len() > 0 && len(p.taken) < p.most {
		c := p.waiting.Remove(p.waiting.Front()).(*Client)
		c.wait = nil
		p.strangers.Remove(c.stranger)
		c.stranger = nil
		p.taken[c] = struct{}{}
		close(c.place)
	}
}

// take waits for a place, and reports whether the connection has one. It ends others that keep the server waiting.
func (p *places) take(ctx context.Context, c *Client) bool {
	p.mu.Lock()
	slow := c.slow
	if c.stranger != nil {
		c.wait = p.waiting.PushBack(c)
		p.seat()
	}
	c.since, c.idle, c.waited, c.bytes = time.Time{}, false, 0, 0
	p.mu.Unlock()
	if slow {
		return false
	}
	for {
		p.mu.Lock()
		again := p.makeRoom(time.Now())
		p.mu.Unlock()
		timer := time.NewTimer(again)
		select {
		case <-c.place:
			timer.Stop()
			return true
		case <-c.ended:
		case <-ctx.Done():
		case <-timer.C:
			continue
		}
		timer.Stop()
		return false
	}
}

// isFull reports whether others wait for a place.
func (p *places) isFull() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting.Len() > 0
}

// makeRoom ends as many clients as others wait for their places, of those that have kept the server waiting for too
// long. It returns when to look again.
func (p *places) makeRoom(now time.Time) time.Duration {
	for p.waiting.Len() > 0 {
		slowest, again := p.slowest(now)
		if slowest == nil {
			return again
		}
		slowest.end(now)
	}
	return bodyPatience
}

// slowest returns the client with a place that keeps the server waiting for longest, or when there may be one.
func (p *places) slowest(now time.Time) (slowest *Client, again time.Duration) {
	longest := time.Duration(0)
	again = bodyPatience
	for c := range p.taken {
		over := c.overdue(now)
		if over >= longest {
			slowest, longest = c, over
		}
		if over < 0 {
			again = min(again, -over)
		}
	}
	return slowest, again
}

// overdue returns for how long more than it may a client has kept the server waiting. It is negative for one that has
// time yet.
func (c *Client) overdue(now time.Time) time.Duration {
	switch {
	case c.since.IsZero():
		return -bodyPatience
	case c.idle:
		return now.Sub(c.since) - idlePatience
	}
	return c.waited + now.Sub(c.since) - bodyPatience
}

// end gives the place of a client to another. What reads its body gets an error, and may still answer it.
func (c *Client) end(now time.Time) {
	c.slow = true
	c.of.leave(c)
	if c.idle {
		go c.Close()
		return
	}
	_ = c.SetReadDeadline(now)
	_ = c.SetWriteDeadline(now.Add(time.Second))
}

// clientKey is that of a request's client in its context.
type clientKey struct{}

// withClient is the ConnContext of servers.
func withClient(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*Client); ok {
		ctx = context.WithValue(ctx, clientKey{}, c)
	}
	return ctx
}

// ClientOf returns the connection of a request, or nil where no server of this package has accepted it.
func ClientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// seated gives requests to a handler when their clients have places.
func seated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := ClientOf(r.Context())
		if c == nil {
			next.ServeHTTP(w, r)
			return
		}
		if !c.of.take(r.Context(), c) {
			panic(http.ErrAbortHandler) // which ends the connection
		}
		if c.of.isFull() {
			w.Header().Set("Connection", "close")
		}
		defer c.rest()
		if r.Body != http.NoBody {
			seen := *r // net/http goes on with the other one
			seen.Body = &clientBody{r.Body, c}
			r = &seen
		}
		next.ServeHTTP(w, r)
	})
}

// clientBody notes how long its client keeps the server waiting.
type clientBody struct {
	io.ReadCloser
	c *Client
}

func (b *clientBody) Read(p []byte) (int, error) {
	b.c.await()
	n, err := b.ReadCloser.Read(p)
	b.c.got(n)
	return n, err
}

// Write implements [net.Conn]. It notes how long a client takes for what it reads.
func (c *Client) Write(p []byte) (int, error) {
	c.await()
	n, err := c.Conn.Write(p)
	c.got(n)
	return n, err
}

func (c *Client) await() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.since = time.Now()
}

func (c *Client) got(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.idle { // the end of an answer is on its way
		c.since = time.Now()
		return
	}
	c.waited += time.Since(c.since)
	c.since = time.Time{}
	if c.bytes += n; c.bytes >= quantum {
		c.waited, c.bytes = 0, 0
	}
}

// rest notes that a request has its answer.
func (c *Client) rest() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.since, c.idle = time.Now(), true
}

// Overdue returns for how long the client has kept the server waiting beyond what it may while others wait.
func (c *Client) Overdue() time.Duration {
	if c == nil {
		return 0
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.overdue(time.Now())
}

// MakeRoom ends what the client sends, and gives its place to another. The handler of its request gets an error, and
// may answer.
func (c *Client) MakeRoom() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.end(time.Now())
}

// Ended reports whether the client had to make room for others.
func (c *Client) Ended() bool {
	if c == nil {
		return false
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.slow
}
