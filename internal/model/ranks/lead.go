package ranks

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"
)

// Leader is rank 0, connected to all others.
type Leader struct{ *group }

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

// listenAt listens at the address. The name of a Pod becomes known only after the Pod has started, so it waits for the
// name to resolve.
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
	keys, err := newTLS()
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	waiting, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	g := &gathering{options: o, links: make([]*link, o.World-1), came: make(chan *link), left: make(chan *link)}
	var working sync.WaitGroup
	working.Go(func() { acceptor{listener, keys, o, o.admit, g.enter}.serve(waiting) })
	err = g.wait(ctx, waiting)
	cancel()
	working.Wait()
	if err != nil {
		sayGoodbye(err, g.links)
		return nil, err
	}
	all := &Leader{newGroup(0, append([]*link{nil}, g.links...), o.Log)} // from here on, a lost rank ends all others
	id, err := g.introduce(ctx)
	if err != nil {
		sayGoodbye(err, g.links)
		return nil, err
	}
	if err := all.open(ctx, o.Transport, id); err != nil {
		all.Close(err)
		return nil, err
	}
	return all, nil
}

// gathering is a group whose ranks are still arriving.
type gathering struct {
	options    Options
	links      []*link // of ranks 1 and up
	came, left chan *link
}

// enter announces a rank, and its loss before all are there.
func (g *gathering) enter(ctx context.Context, l *link) {
	select {
	case g.came <- l:
	case <-ctx.Done():
		l.end(goodbye{Text: "rank 0 does not wait any longer"})
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

// roster tells a rank about the others.
type roster struct {
	Session   []byte   // of this gathering
	Addresses []string // where each rank listens; rank 0: empty
	Transport []byte   // id of the exchange of vectors, if it is not the links'
}

// introduce makes the ranks connect to one another, and waits until they have. It returns the id of their exchange.
func (g *gathering) introduce(ctx context.Context) (id []byte, err error) {
	if t := g.options.Transport; t != nil {
		if id, err = t.NewID(); err != nil {
			return nil, err
		}
	}
	list := roster{Session: newNonce(), Addresses: make([]string, g.options.World), Transport: id}
	for _, l := range g.links {
		list.Addresses[l.rank] = l.address
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	for _, l := range g.links {
		if err := l.send(kindRoster, raw); err != nil {
			return nil, err
		}
	}
	for _, l := range g.links {
		if _, err := from(ctx, l, l.ready); err != nil {
			return nil, err
		}
	}
	return id, nil
}

// wait collects the ranks as they join, until all are present. A rank that joins again replaces itself.
func (g *gathering) wait(ctx, waiting context.Context) error {
	for {
		missing := g.missing()
		if len(missing) == 0 {
			return nil
		}
		select {
		case l := <-g.came:
			if before := g.links[l.rank-1]; before != nil {
				before.end(goodbye{Failed: true, Text: fmt.Sprintf("another process has come as rank %d", l.rank)})
			}
			g.links[l.rank-1] = l
			g.options.Log.Info("a rank has come", keyStage, "ranks", keyRank, l.rank, keyAddress, l.conn.RemoteAddr().String())
		case l := <-g.left:
			if g.links[l.rank-1] == l {
				g.links[l.rank-1] = nil
				g.options.Log.Warn("a rank has left before all were there", keyStage, "ranks", keyRank, l.rank, keyErr, l.err)
			}
			l.end(goodbye{})
		case <-waiting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%s did not come to %s within %s (RANK_JOIN_TIMEOUT): want WORLD_SIZE=%d processes with RANK 0 to %d",
				strings.Join(missing, " and "), g.options.Address, g.options.Wait, g.options.World, g.options.World-1)
		}
	}
}

// missing names the missing ranks.
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

// Tell sends a message to a rank.
func (l *Leader) Tell(rank int, message []byte) error {
	return l.links[rank].send(kindMessage, message)
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
	return l.links[rank].hear(ctx)
}

// acceptor accepts ranks.
type acceptor struct {
	listener net.Listener
	tls      *tls.Config
	options  Options
	admit    func(hello) error
	enter    func(context.Context, *link) // takes over a link; it may wait until ctx ends
}

// serve shakes hands with every peer, until ctx ends. It then waits for all handshakes.
func (d acceptor) serve(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		<-ctx.Done()
		_ = d.listener.Close() // ends Accept
	})
	silent, strangers := &pending{most: maxSilent}, &pending{most: maxStrangers}
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			d.log().Warn("accepting a rank", keyStage, "ranks", keyErr, err)
			select {
			case <-time.After(time.Second):
				continue
			case <-ctx.Done():
				return
			}
		}
		leave := silent.enter(conn)
		said := func() { // its hello in TLS
			leave()
			leave = strangers.enter(conn)
		}
		working.Go(func() {
			l := d.greet(ctx, conn, said)
			leave()
			if l != nil {
				d.enter(ctx, l)
			}
		})
	}
}

func (d acceptor) log() *slog.Logger { return d.options.Log }

// greet makes a link of a connection; nil: it refuses it. It calls said when the peer has sent its TLS hello.
func (d acceptor) greet(ctx context.Context, conn net.Conn, said func()) *link {
	keys := d.tls.Clone()
	keys.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		said()
		return nil, nil
	}
	over, err := secure(ctx, conn, keys, true)
	if err != nil {
		d.log().Log(ctx, severity(err), "refusing a stranger", keyStage, "ranks", keyAddress, conn.RemoteAddr().String(), keyErr, err)
		return nil
	}
	hurry := context.AfterFunc(ctx, func() { _ = over.SetDeadline(time.Now()) })
	h, err := greet(over, over.binding, d.options, d.admit)
	if !hurry() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		d.log().Log(ctx, severity(err), "refusing a rank", keyStage, "ranks", keyRank, h.Rank, keyAddress, conn.RemoteAddr().String(), keyErr, err)
		_ = over.Close()
		return nil
	}
	l := newLink(h.Rank, over, d.options.Silence)
	l.address = h.Address
	return l
}

// severity is the level at which a refused connection is logged. A connection that had to make room is one of very
// many.
func severity(err error) slog.Level {
	if errors.Is(err, net.ErrClosed) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// Keys of log lines.
const (
	keyAddress = "address"
	keyErr     = "err"
	keyRank    = "rank"
	keyStage   = "stage"
)
