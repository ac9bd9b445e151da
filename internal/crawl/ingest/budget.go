package ingest

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// errBusy means that the bodies of all requests together use up the budget.
var errBusy = errors.New("too many bytes of other requests are in memory: send it again in a moment")

// errLong marks a part of a body that is too large.
var errLong = errors.New("too large")

// client is the sender of a request.
type client interface {
	Overdue() time.Duration // time for which it has kept the server waiting beyond its allowance while others wait
	MakeRoom()              // aborts its body
}

// budget bounds the bytes of all requests together.
type budget struct {
	mu     sync.Mutex
	left   int64
	purses map[*purse]struct{} // of clients that may be cut off
	given  chan struct{}       // closed when bytes are returned
}

func newBudget(n int64) *budget {
	return &budget{left: n, purses: make(map[*purse]struct{}), given: make(chan struct{})}
}

// purse holds the bytes that one request has taken from the budget. It is for one goroutine.
type purse struct {
	of    *budget
	from  client // nil: the body has arrived already
	taken int64
}

// take takes n bytes. If there are too few, it cuts off clients that keep the server waiting, the slowest first. It
// returns [errBusy] if that does not help.
func (p *purse) take(n int64) error {
	limit := time.NewTimer(roomTime)
	defer limit.Stop()
	for {
		given, ok := p.of.take(p, n)
		if ok {
			return nil
		}
		if slow := p.of.slowest(p); slow != nil {
			slow.MakeRoom()
		}
		select {
		case <-given:
		case <-time.After(roomTime / 20):
		case <-limit.C:
			return errBusy
		}
	}
}

func (b *budget) take(p *purse, n int64) (given <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left < n {
		return b.given, false
	}
	b.left -= n
	if p.taken += n; p.from != nil {
		b.purses[p] = struct{}{}
	}
	return nil, true
}

// slowest returns the client with bytes of the budget that keeps the server waiting for longest, and removes it from
// the list. It returns nil if none is overdue.
func (b *budget) slowest(besides *purse) client {
	b.mu.Lock()
	defer b.mu.Unlock()
	var slowest *purse
	longest := time.Duration(0)
	for p := range b.purses {
		if over := p.from.Overdue(); over > longest && p != besides {
			slowest, longest = p, over
		}
	}
	if slowest == nil {
		return nil
	}
	delete(b.purses, slowest)
	return slowest.from
}

// give returns all bytes to the budget.
func (p *purse) give() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.of.left += p.taken
	p.taken = 0
	delete(p.of.purses, p)
	close(p.of.given)
	p.of.given = make(chan struct{})
}

// read reads all of r, up to a number of bytes. A client that sends nothing takes no memory.
func (p *purse) read(r io.Reader, most int) ([]byte, error) {
	var buf []byte
	for {
		if len(buf) == cap(buf) {
			room := max(firstRead, 2*cap(buf))
			if err := p.take(int64(room - cap(buf))); err != nil {
				return nil, err
			}
			buf = append(make([]byte, 0, room), buf...)
		}
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > most:
			return nil, fmt.Errorf("%w: more than %d bytes", errLong, most)
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return nil, err
		}
	}
}
