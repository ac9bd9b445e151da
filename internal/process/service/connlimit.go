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

// mostStrangers bounds the connections without a place: they have not sent a whole head, or wait for a place.
const mostStrangers = 1024

// The times for which a client with a place may keep the server waiting while others wait for a place: with its body,
// of which it must send at least quantum in this time, or with its next request.
const (
	bodyPatience = 250 * time.Millisecond
	idlePatience = 700 * time.Millisecond
	quantum      = 64 << 10
)

// places is a listener whose connections have a place from their first whole head to their end. If there are too many
// without one, the oldest is closed. If all places are taken, clients that keep the server waiting are closed.
type places struct {
	net.Listener
	most int

	mu        sync.Mutex
	strangers list.List // of *Client, in the order in which they came
	waiting   list.List // of *Client: strangers that have sent a whole head
	taken     map[*Client]struct{}
}

// Client is a connection to a server of this package.
type Client struct {
	net.Conn
	of    *places
	ended chan struct{}
	once  sync.Once

	// The fields below are guarded by places.mu.
	stranger *list.Element // nil: it has a place, or has ended
	wait     *list.Element
	place    chan struct{} // closed when it gets a place
	idle     bool          // between two requests
	since    time.Time     // start of the server's wait for the client; zero: it does not wait
	waited   time.Duration // earlier waits for the quantum being sent
	bytes    int           // of that quantum
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

// Close implements [net.Conn]. It gives the place to the next waiting client.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.ended) })
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// leave removes a connection from all lists.
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

// seat gives free places to waiting clients.
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

// take waits for a place, and reports whether the connection got one. It closes others that keep the server waiting.
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

// makeRoom closes clients that have kept the server waiting for too long, at most as many as wait for their places. It
// returns the time of the next check.
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

// slowest returns the client with a place that keeps the server waiting for longest, or the time at which there may be
// one.
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

// overdue returns how far a client's wait exceeds its allowance. It is negative while the client has time.
func (c *Client) overdue(now time.Time) time.Duration {
	switch {
	case c.since.IsZero():
		return -bodyPatience
	case c.idle:
		return now.Sub(c.since) - idlePatience
	}
	return c.waited + now.Sub(c.since) - bodyPatience
}

// end gives the place of a client to another. The reader of its body gets an error, and may still answer it.
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

// clientKey is the key of a request's client in its context.
type clientKey struct{}

// withClient is the ConnContext of servers.
func withClient(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*Client); ok {
		ctx = context.WithValue(ctx, clientKey{}, c)
	}
	return ctx
}

// ClientOf returns the connection of a request, or nil if no server of this package accepted it.
func ClientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}

// seated passes requests to a handler once their clients have places.
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

// clientBody measures how long its client keeps the server waiting.
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

// Write implements [net.Conn]. It measures how long a client takes to read.
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

// rest records that a request has its answer.
func (c *Client) rest() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.since, c.idle = time.Now(), true
}

// Overdue returns how far the client's wait exceeds its allowance while others wait.
func (c *Client) Overdue() time.Duration {
	if c == nil {
		return 0
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.overdue(time.Now())
}

// MakeRoom aborts the client's body, and gives its place to another. The handler of its request gets an error, and may
// answer.
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
