package ranks

import "context"

// Member is a rank that is joined to the leader, and to all others.
type Member struct{ *group }

// Tell sends a message to the leader.
func (m *Member) Tell(message []byte) error { return m.links[0].send(kindMessage, message) }

// Hear returns the leader's next message, or [ErrDone] when the training is over.
func (m *Member) Hear(ctx context.Context) ([]byte, error) { return m.links[0].hear(ctx) }
