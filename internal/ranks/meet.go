package ranks

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"time"
)

// meetPause is the wait between two tries to reach a rank that has come to rank 0.
const meetPause = time.Second

// meetings are the joins of a rank above 0 with others above 0. Of two ranks the higher one comes to the lower one.
type meetings struct {
	session []byte
	options Options
	came    chan *link
	failed  chan error
}

// admit says why a rank cannot join this one.
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
		l.end(farewell{Text: "all ranks are there"})
	}
}

// visit joins a rank below this one. Until rank 0 notes the loss of one that is not to be reached, it tries again.
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
		m.options.Log.Warn("another rank cannot be reached yet", "stage", "ranks", "rank", rank, "address", address, "err", err)
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
