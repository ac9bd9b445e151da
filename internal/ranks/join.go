package ranks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Member is a rank that is joined to the leader.
type Member struct{ link *link }

// joinPause is the wait between two tries to reach the leader.
const joinPause = 200 * time.Millisecond

// Join reaches the leader, however late it starts, unless that takes longer than Options.Wait. It does not try again when
// the leader refuses.
func Join(ctx context.Context, o Options) (*Member, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, o.Wait)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(waiting, "tcp", o.Address)
		if err == nil {
			if err = introduce(conn, o); err == nil {
				return &Member{newLink(0, conn, o.Silence)}, nil
			}
			err = errors.Join(err, conn.Close())
		}
		if errors.Is(err, errRefused) {
			return nil, err
		}
		o.Log.Debug("rank 0 cannot be reached yet", "stage", "ranks", "address", o.Address, "err", err)
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

// Tell sends a message to the leader.
func (m *Member) Tell(message []byte) error { return m.link.send(kindMessage, message) }

// Hear returns the leader's next message, or [ErrDone] when the training is over.
func (m *Member) Hear(ctx context.Context) ([]byte, error) { return m.link.hear(ctx) }

// Watch waits until the leader is lost or ends the training. It returns why.
func (m *Member) Watch(ctx context.Context) error {
	select {
	case <-m.link.lost:
		return m.link.err
	case <-ctx.Done():
		return nil
	}
}

// Close tells the leader why this rank ends, and leaves it.
func (m *Member) Close(why error) {
	if why == nil {
		m.link.end(farewell{Done: true})
		return
	}
	m.link.end(farewellFor(why))
}
