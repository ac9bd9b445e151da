package ranks

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// joinPause is the wait between two tries to reach another rank.
const joinPause = 200 * time.Millisecond

// Join connects to the leader, however late it starts, unless that takes longer than Options.Wait. It does not retry if
// the leader refuses. Then it waits until all other ranks are present, and connects to them.
func Join(ctx context.Context, o Options) (*Member, error) {
	a, err := apply(ctx, o)
	if err != nil {
		return nil, err
	}
	return a.settle(ctx)
}

// applicant is a rank that the leader has admitted, but that has not met the others yet.
type applicant struct {
	options  Options
	tls      *tls.Config
	leader   *link
	listener net.Listener // for the ranks above this one
}

// apply connects to the leader.
func apply(ctx context.Context, o Options) (*applicant, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	keys, err := newTLS()
	if err != nil {
		return nil, err
	}
	a := &applicant{options: o, tls: keys}
	waiting, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for {
		a.leader, err = a.reach(waiting, o.Address, func(conn net.Conn) (h hello, err error) {
			h.Facts = o.Facts
			h.Address, err = a.listen(waiting, conn.LocalAddr())
			return h, err
		})
		if err == nil {
			return a, nil
		}
		if a.listener != nil {
			err = errors.Join(err, a.listener.Close())
			a.listener = nil
		}
		if isRefusal(err) {
			return nil, err
		}
		o.Log.Debug("rank 0 cannot be reached yet", keyStage, "ranks", keyAddress, o.Address, keyErr, err)
		select {
		case <-time.After(joinPause):
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, fmt.Errorf("rank 0 was not to be reached at %s (MASTER_ADDR, MASTER_PORT) within %s (RANK_JOIN_TIMEOUT): %w", o.Address, o.Wait, err)
		}
	}
}

// listen listens for other ranks on the address from which this one reaches the leader, and on no other.
func (a *applicant) listen(ctx context.Context, local net.Addr) (string, error) {
	host, _, err := net.SplitHostPort(local.String())
	if err == nil {
		a.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(a.options.Port)))
	}
	if err != nil {
		return "", fmt.Errorf("listening for other ranks at RANK_PORT=%d: %w", a.options.Port, err)
	}
	return a.listener.Addr().String(), nil
}

// reach connects to a rank at an address. say returns the hello for it.
func (a *applicant) reach(ctx context.Context, address string, say func(net.Conn) (hello, error)) (*link, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	over, err := secure(ctx, conn, a.tls, false)
	if err != nil {
		return nil, err
	}
	hurry := context.AfterFunc(ctx, func() { _ = over.SetDeadline(time.Now()) })
	defer hurry()
	h, err := say(over)
	if err == nil {
		err = introduce(over, over.binding, a.options, h)
	}
	if err != nil {
		return nil, errors.Join(err, over.Close())
	}
	return newLink(h.To, over, a.options.Silence), nil
}

// settle waits until all ranks have come to the leader, and connects to them.
func (a *applicant) settle(ctx context.Context) (*Member, error) {
	links := make([]*link, a.options.World)
	links[0] = a.leader
	list, err := a.roster(ctx)
	if err == nil {
		err = a.meet(ctx, list, links)
	}
	err = errors.Join(err, a.close())
	if err == nil {
		err = a.leader.send(kindReady, nil)
	}
	if err != nil {
		sayGoodbye(err, links)
		return nil, err
	}
	m := &Member{newGroup(a.options.Rank, links, a.options.Log)}
	if err := m.open(ctx, a.options.Transport, list.Transport); err != nil {
		m.Close(err)
		return nil, err
	}
	return m, nil
}

// close ends listening, unless that has ended.
func (a *applicant) close() error {
	if err := a.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// roster waits for the leader's roster.
func (a *applicant) roster(ctx context.Context) (list roster, err error) {
	raw, err := from(ctx, a.leader, a.leader.roster)
	if err != nil {
		return list, err
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return list, fmt.Errorf("reading who the other ranks are: %w", err)
	}
	if len(list.Addresses) != a.options.World || len(list.Session) == 0 {
		return list, fmt.Errorf("rank 0 names %d ranks, want WORLD_SIZE=%d", len(list.Addresses), a.options.World)
	}
	return list, nil
}

// meet connects to the ranks below this one, and waits for those above it.
func (a *applicant) meet(ctx context.Context, list roster, links []*link) error {
	meeting, cancel := context.WithTimeout(ctx, a.options.Wait)
	defer cancel()
	m := meetings{session: list.Session, options: a.options, came: make(chan *link), failed: make(chan error)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		acceptor{a.listener, a.tls, a.options, m.admit, m.enter}.serve(meeting)
	}()
	defer func() { <-served }()
	defer cancel()
	var visiting sync.WaitGroup
	for rank := 1; rank < a.options.Rank; rank++ {
		visiting.Go(func() { m.visit(meeting, a, rank, list.Addresses[rank]) })
	}
	defer visiting.Wait()
	defer cancel()
	for {
		missing := m.missing(links)
		if len(missing) == 0 {
			return nil
		}
		select {
		case l := <-m.came:
			if links[l.rank] != nil {
				l.end(goodbye{Text: fmt.Sprintf("another process has come as rank %d", l.rank)})
				continue
			}
			links[l.rank] = l
		case err := <-m.failed:
			return err
		case <-a.leader.lost:
			return a.leader.err
		case <-meeting.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("rank %d and %s have not met within %s (RANK_JOIN_TIMEOUT): let ranks reach one another at RANK_PORT", a.options.Rank, strings.Join(missing, " and "), a.options.Wait)
		}
	}
}

// sayGoodbye tells ranks why there is no training yet.
func sayGoodbye(err error, links []*link) {
	f := goodbyeFor(err)
	f.Failed = false // their state is sound
	for _, l := range links {
		if l != nil {
			l.end(f)
		}
	}
}

// Member is a rank that is connected to the leader, and to all others.
type Member struct{ *group }

// Tell sends a message to the leader.
func (m *Member) Tell(message []byte) error { return m.links[0].send(kindMessage, message) }

// Hear returns the leader's next message, or [ErrDone] when the training is over.
func (m *Member) Hear(ctx context.Context) ([]byte, error) { return m.links[0].hear(ctx) }

// Over reports whether the leader has ended the training in order. Even a rank that leaves because of a loss may learn
// this.
func (m *Member) Over() bool { return m.links[0].over.Load() }

// meetPause is the wait between two attempts to reach a rank that has come to rank 0.
const meetPause = time.Second

// meetings are the joins of a rank above 0 with others above 0. Of two ranks the higher one comes to the lower one.
type meetings struct {
	session []byte
	options Options
	came    chan *link
	failed  chan error
}

// admit returns why a rank cannot connect to this one.
func (m meetings) admit(h hello) error {
	switch {
	case h.World != m.options.World:
		return fmt.Errorf("WORLD_SIZE is %d on rank %d and %d on rank %d: want one value on all ranks", h.World, h.Rank, m.options.World, m.options.Rank)
	case h.To != m.options.Rank || h.Rank <= m.options.Rank || h.Rank >= m.options.World:
		return fmt.Errorf("rank %d wants to join rank %d here, want ranks %d to %d to join rank %d", h.Rank, h.To, m.options.Rank+1, m.options.World-1, m.options.Rank)
	case !bytes.Equal(h.Session, m.session):
		return fmt.Errorf("rank %d was not called by rank 0 for this training: start it again", h.Rank)
	}
	return nil
}

// enter takes a link to a rank above this one.
func (m meetings) enter(ctx context.Context, l *link) {
	select {
	case m.came <- l:
	case <-ctx.Done():
		l.end(goodbye{Text: "all ranks are there"})
	}
}

// visit connects to a rank below this one. It retries until rank 0 notices that the rank is lost.
func (m meetings) visit(ctx context.Context, a *applicant, rank int, address string) {
	for {
		l, err := a.reach(ctx, address, func(net.Conn) (hello, error) { return hello{To: rank, Session: m.session}, nil })
		if err == nil {
			m.enter(ctx, l)
			return
		}
		if isRefusal(err) {
			select {
			case m.failed <- err:
			case <-ctx.Done():
			}
			return
		}
		m.options.Log.Warn("another rank cannot be reached yet", keyStage, "ranks", keyRank, rank, keyAddress, address, keyErr, err)
		select {
		case <-time.After(meetPause):
		case <-ctx.Done():
			return
		}
	}
}

// missing names the ranks that this one has not met.
func (m meetings) missing(links []*link) (names []string) {
	for rank, l := range links {
		if l == nil && rank != m.options.Rank {
			names = append(names, fmt.Sprintf("rank %d", rank))
		}
	}
	return names
}
