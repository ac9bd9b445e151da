package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// ErrStays is what every refusal to put a dead letter back wraps.
var ErrStays = errors.New("cannot be put back")

// PutBack decides which dead letters may go back to the lane that they came from. Only a producer's records can: those
// of stages have their place in a sequence that is gone by. And only while the lane goes on: behind a final seal nobody
// would read them.
type PutBack struct {
	ended []bool // by lane
}

// NewPutBack asks which lanes have ended.
func NewPutBack(ctx context.Context, log *stream.Log) (*PutBack, error) {
	b := &PutBack{ended: make([]bool, log.Config().Lanes)}
	for lane := range b.ended {
		last, found, err := log.LastRecord(ctx, schemas.Pairs, lane)
		if err != nil {
			return nil, err
		}
		b.ended[lane] = laneTopic{last: last, found: found}.sealed()
	}
	return b, nil
}

// Check returns nil if d may go back, or why not.
func (b *PutBack) Check(d stream.DeadLetter) error {
	switch {
	case d.Topic != schemas.Pairs:
		return fmt.Errorf("dead letter %d %w: it comes from %q, and only %s take records from outside", d.Number, ErrStays, d.Topic, schemas.Pairs)
	case d.Lane < 0 || d.Lane >= len(b.ended):
		return fmt.Errorf("dead letter %d %w: it comes from lane %d, and LANES=%d", d.Number, ErrStays, d.Lane, len(b.ended))
	case b.ended[d.Lane]:
		return fmt.Errorf("dead letter %d %w: lane %d has ended with a final seal", d.Number, ErrStays, d.Lane)
	}
	return nil
}
