package ranks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// group holds a rank's links to the others.
type group struct {
	rank     int
	links    []*link // by rank; nil: this one
	exchange Exchange
	log      *slog.Logger
	lost     chan struct{}
	once     sync.Once
	err      error
}

// newGroup minds the links to all other ranks.
func newGroup(rank int, links []*link, log *slog.Logger) *group {
	g := &group{rank: rank, links: links, log: log, lost: make(chan struct{})}
	g.exchange = mesh{g}
	for _, one := range g.others() {
		go g.mind(one)
	}
	return g
}

// others returns the links to all other ranks.
func (g *group) others() []*link {
	return slices.DeleteFunc(slices.Clone(g.links), func(l *link) bool { return l == nil })
}

// mind waits for the end of a link, and ends all others with its error.
func (g *group) mind(one *link) {
	<-one.lost
	if one.rank > 0 && errors.Is(one.err, ErrDone) {
		return // rank 0 ends a training: its message is on its way
	}
	g.fail(one.err)
}

// fail ends all links. The first error counts.
func (g *group) fail(err error) {
	g.once.Do(func() {
		g.err = err
		close(g.lost)
		for _, one := range g.others() {
			one.failed(err)
		}
	})
}

// unlessLost runs work that needs all ranks but does not notice a loss by itself. A loss ends the work with its error.
func (g *group) unlessLost(ctx context.Context, run func(context.Context) error) error {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := g.Watch(running); err != nil {
			cancel(err)
		}
	}()
	err := run(running)
	if cause := context.Cause(running); err != nil && ctx.Err() == nil && cause != nil {
		return cause
	}
	return err
}

// carried is an exchange over another transport.
type carried struct {
	Exchange
	group *group
}

// AllReduce implements Exchange. The links notice a loss, not the transport.
func (c carried) AllReduce(ctx context.Context, p Plan, vectors [][]float32) error {
	return c.group.unlessLost(ctx, func(ctx context.Context) error { return c.Exchange.AllReduce(ctx, p, vectors) })
}

// open lets another transport carry the vectors of this group.
func (g *group) open(ctx context.Context, t Transport, id []byte) error {
	if t == nil {
		return nil
	}
	return g.unlessLost(ctx, func(ctx context.Context) error {
		opened, err := t.Open(ctx, id, g.rank, g.World())
		if err == nil {
			g.exchange = carried{opened, g}
		}
		return err
	})
}

// Watch waits until a rank is lost or ends the training, or ctx ends. It returns the cause; nil: ctx has ended.
func (g *group) Watch(ctx context.Context) error {
	select {
	case <-g.lost:
		return g.err
	case <-ctx.Done():
		return nil
	}
}

// World returns the number of ranks.
func (g *group) World() int { return len(g.links) }

// Traffic returns the bytes that this rank has sent to and received from all others, before encryption.
func (g *group) Traffic() (sent, received int64) {
	for _, one := range g.others() {
		sent, received = sent+one.sent.Load(), received+one.received.Load()
	}
	return sent, received
}

// Close tells all ranks why this one ends, nil if the training is over, and leaves them. It reports whether it could
// tell each of them.
func (g *group) Close(why error) (told bool) {
	f := goodbye{Done: true}
	if why != nil {
		f = goodbyeFor(why)
		g.once.Do(func() { // before the others end because of it
			g.err = why
			close(g.lost)
		})
	}
	var leaving sync.WaitGroup
	var deaf atomic.Bool
	for _, one := range slices.Backward(g.others()) {
		leaving.Go(func() {
			if !one.end(f) {
				deaf.Store(true)
			}
		})
	}
	leaving.Wait()
	if err := g.exchange.Close(); err != nil {
		g.log.Warn("the exchange did not end well", keyStage, "ranks", keyRank, g.rank, keyErr, err)
	}
	return !deaf.Load()
}

// decode waits for a frame with JSON.
func (l *link) decode(ctx context.Context, frames <-chan []byte, v any) error {
	raw, err := from(ctx, l, frames)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("reading what rank %d sums up: %w", l.rank, err)
	}
	return nil
}
