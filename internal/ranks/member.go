package ranks

import "context"

// Member is a rank that is joined to the leader, and to all others.
type Member struct{ *group }

// Tell sends a message to the leader.
func (m *Member) Tell(message []byte) error { return m.links[0].send(kindMessage, message) }

// Hear returns the leader's next message, or [ErrDone] when the training is over.
func (m *Member) Hear(ctx context.Context) ([]byte, error) { return m.links[0].hear(ctx) }

// Over reports whether the leader has ended the training in order. A rank that leaves because it has lost another one may
// hear so meanwhile.
func (m *Member) Over() bool { return m.links[0].over.Load() }
