package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// How often the gate looks at the log, and for how long it waits for it.
const (
	lagEvery   = 500 * time.Millisecond
	endedEvery = 10 * time.Second
	lookTime   = 5 * time.Second
)

// gate decides whether the log takes more pairs. Of the requests that come, one looks at the log, and the others share what
// it has seen for a moment.
type gate struct {
	maxLag int64
	lag    func(context.Context) (int64, error)                 // pairs that the encoder has not processed
	ended  func(context.Context) (map[int]*schemas.Seal, error) // final seals, by lane
	now    func() time.Time

	mu                      sync.Mutex
	room                    int64 // pairs that may be taken before the next look
	lookedLag, lookedEnded  time.Time
	faultOfLag, faultOfEnds error // of the last look
}

// lagError says that the encoder is behind.
type lagError struct{ lag, most int64 }

func (e lagError) Error() string {
	return fmt.Sprintf("the encoder has %d pairs to go, and from %d on (INGEST_MAX_LAG) none are taken: send it again later", e.lag, e.most)
}

// errEnded marks a crawl that takes nothing more.
var errEnded = errors.New("publish to another NAMESPACE")

// admit returns nil if a request may be taken.
func (g *gate) admit(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime) // others need the answer as well
	defer cancel()
	now := g.now()
	if every := endedEvery; now.Sub(g.lookedEnded) > every || g.faultOfEnds != nil && now.Sub(g.lookedEnded) > lagEvery {
		g.faultOfEnds, g.lookedEnded = g.lookForEnds(ctx), now
	}
	if g.faultOfEnds != nil || g.maxLag == 0 {
		return g.faultOfEnds
	}
	if now.Sub(g.lookedLag) > lagEvery {
		var lag int64
		lag, g.faultOfLag = g.lag(ctx)
		g.room, g.lookedLag = g.maxLag-lag, now
	}
	switch {
	case g.faultOfLag != nil:
		return fmt.Errorf("looking how far the encoder is: %w", g.faultOfLag)
	case g.room <= 0:
		return lagError{g.maxLag - g.room, g.maxLag}
	}
	return nil
}

func (g *gate) lookForEnds(ctx context.Context) error {
	ended, err := g.ended(ctx)
	if err != nil {
		return fmt.Errorf("looking whether lanes have ended: %w", err)
	}
	if len(ended) == 0 {
		return nil
	}
	lanes := slices.Sorted(maps.Keys(ended))
	return fmt.Errorf("%d lanes have ended with a final seal, the first is lane %d: %w", len(lanes), lanes[0], errEnded)
}

// took counts pairs that were published since the last look.
func (g *gate) took(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.room -= int64(n)
}

// errBusy says that the bodies of all requests together take what they may.
var errBusy = errors.New("too many bytes of other requests are in memory: send it again in a moment")

// errLong marks a part of a body that is larger than it may be.
var errLong = errors.New("too large")

// budget bounds the bytes of all requests together.
type budget struct{ left atomic.Int64 }

func newBudget(n int64) *budget {
	b := new(budget)
	b.left.Store(n)
	return b
}

// purse holds the bytes that one request has taken of the budget. It is for one goroutine.
type purse struct {
	of    *budget
	taken int64
}

// take takes n bytes, or returns [errBusy].
func (p *purse) take(n int64) error {
	if p.of.left.Add(-n) < 0 {
		p.of.left.Add(n)
		return errBusy
	}
	p.taken += n
	return nil
}

// give gives back all.
func (p *purse) give() {
	p.of.left.Add(p.taken)
	p.taken = 0
}

// firstRead is the room with which reading begins.
const firstRead = 16 << 10

// read reads all of r, which may have so many bytes. A client that sends nothing takes no room.
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
