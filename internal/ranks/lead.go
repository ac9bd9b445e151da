package ranks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxStrangers bounds the handshakes at a time.
const maxStrangers = 64

// Leader is rank 0, joined to all others.
type Leader struct {
	links []*link // of ranks 1 and up
	lost  chan struct{}
	once  sync.Once
	err   error
}

// Lead listens at the address until all other ranks have come.
func Lead(ctx context.Context, o Options) (*Leader, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	listener, err := listenAt(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("MASTER_ADDR and MASTER_PORT make %s, where rank 0 cannot listen: %w", o.Address, err)
	}
	return lead(ctx, listener, o)
}

// listenAt listens at the address. The name of a Pod becomes known only after the Pod has started, so it waits for a name.
func listenAt(ctx context.Context, o Options) (net.Listener, error) {
	waiting, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
		if unknown := new(net.DNSError); !errors.As(err, &unknown) {
			return listener, err
		}
		select {
		case <-time.After(joinPause):
		case <-waiting.Done():
			return nil, err
		}
	}
}

func lead(ctx context.Context, listener net.Listener, o Options) (*Leader, error) {
	waiting, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	g := &gathering{
		options: o, links: make([]*link, o.World-1), remarks: make([]string, o.World-1), came: make(chan *link), left: make(chan *link),
	}
	var working sync.WaitGroup
	working.Go(func() { g.accept(waiting, listener, &working) })
	err := g.wait(ctx, waiting)
	cancel()
	working.Wait()
	if err != nil {
		for _, l := range g.links {
			if l != nil {
				l.end(farewell{Text: err.Error()})
			}
		}
		return nil, err
	}
	l := &Leader{links: g.links, lost: make(chan struct{})}
	for _, one := range l.links {
		go l.mind(one)
	}
	return l, nil
}

// gathering is a group whose ranks are on their way.
type gathering struct {
	options    Options
	links      []*link
	remarks    []string // why a rank is not here, by rank
	came, left chan *link
}

// accept shakes hands with whoever comes.
func (g *gathering) accept(ctx context.Context, listener net.Listener, working *sync.WaitGroup) {
	guests := make(chan struct{}, maxStrangers)
	working.Go(func() {
		<-ctx.Done()
		_ = listener.Close() // ends Accept
	})
	for {
		conn, err := listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			g.options.Log.Warn("accepting a rank", "stage", "ranks", "err", err)
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case guests <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			return
		}
		working.Go(func() {
			defer func() { <-guests }()
			g.greet(ctx, conn)
		})
	}
}

func (g *gathering) greet(ctx context.Context, conn net.Conn) {
	hurry := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	rank, err := greet(conn, g.options)
	if !hurry() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		g.options.Log.Warn("refusing a rank", "stage", "ranks", "rank", rank, "address", conn.RemoteAddr().String(), "err", err)
		_ = conn.Close()
		return
	}
	l := newLink(rank, conn, g.options.Silence)
	select {
	case g.came <- l:
	case <-ctx.Done():
		l.end(farewell{Text: "rank 0 does not wait any longer"})
		return
	}
	select {
	case <-l.lost:
	case <-ctx.Done():
		return
	}
	select {
	case g.left <- l:
	case <-ctx.Done():
	}
}

// wait seats the ranks as they come, until all are there. One that comes again takes its own seat.
func (g *gathering) wait(ctx, waiting context.Context) error {
	for {
		missing := g.missing()
		if len(missing) == 0 {
			return nil
		}
		select {
		case l := <-g.came:
			if before := g.links[l.rank-1]; before != nil {
				before.end(farewell{Text: fmt.Sprintf("another process has come as rank %d", l.rank)})
			}
			g.links[l.rank-1] = l
			g.options.Log.Info("a rank has come", "stage", "ranks", "rank", l.rank, "address", l.conn.RemoteAddr().String())
		case l := <-g.left:
			if g.links[l.rank-1] == l {
				g.links[l.rank-1] = nil
				g.options.Log.Warn("a rank has left before all were there", "stage", "ranks", "rank", l.rank, "err", l.err)
			}
			l.end(farewell{})
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s did not come to %s within %s (RANK_JOIN_TIMEOUT): want WORLD_SIZE=%d processes with RANK 0 to %d",
				strings.Join(missing, " and "), g.options.Address, g.options.Wait, g.options.World, g.options.World-1)
		}
	}
}

// missing names the ranks that are not there.
func (g *gathering) missing() (names []string) {
	for i, l := range g.links {
		if l == nil || isLost(l) {
			names = append(names, fmt.Sprintf("rank %d", i+1))
		}
	}
	return names
}

func isLost(l *link) bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// mind waits for the end of a link, and ends all others with its error.
func (l *Leader) mind(one *link) {
	<-one.lost
	l.once.Do(func() {
		l.err = one.err
		close(l.lost)
		for _, other := range l.links {
			other.failed(one.err)
		}
	})
}

// Watch waits until a rank is lost, whose error it returns, or ctx ends.
func (l *Leader) Watch(ctx context.Context) error {
	select {
	case <-l.lost:
		return l.err
	case <-ctx.Done():
		return nil
	}
}

// World returns the number of ranks.
func (l *Leader) World() int { return len(l.links) + 1 }

// Tell sends a message to a rank.
func (l *Leader) Tell(rank int, message []byte) error {
	return l.links[rank-1].send(kindMessage, message)
}

// TellAll sends a message to all ranks.
func (l *Leader) TellAll(message []byte) error {
	for rank := 1; rank < l.World(); rank++ {
		if err := l.Tell(rank, message); err != nil {
			return err
		}
	}
	return nil
}

// Hear returns the next message of a rank. It ends when any rank is lost.
func (l *Leader) Hear(ctx context.Context, rank int) ([]byte, error) {
	return l.links[rank-1].hear(ctx)
}

// Close tells all ranks why the training ends, nil when it is over, and leaves them.
func (l *Leader) Close(why error) {
	f := farewell{Done: true}
	if why != nil {
		f = farewellFor(why)
		l.once.Do(func() { // before the others end because of it
			l.err = why
			close(l.lost)
		})
	}
	var leaving sync.WaitGroup
	for _, one := range slices.Backward(l.links) {
		leaving.Go(func() { one.end(f) })
	}
	leaving.Wait()
}
