package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// ErrStays marks every refusal to put a dead letter back.
var ErrStays = errors.New("cannot be put back")

// PutBack decides which dead letters may return to the lane that they came from. A letter returns once. It must be a
// producer's record, because the seq of a stage's record is taken. Its lane must not have a final seal, after which stages
// read nothing.
type PutBack struct {
	ended []bool         // by lane
	done  map[int64]bool // numbers of the letters that have been put back
}

// NewPutBack reads which lanes have ended and which letters have been put back. With again, letters may return once
// more.
func NewPutBack(ctx context.Context, log *stream.Log, again bool) (*PutBack, error) {
	done, err := log.PutBack(ctx)
	if err != nil {
		return nil, err
	}
	if again {
		done = nil
	}
	b := &PutBack{done: done, ended: make([]bool, log.Config().Lanes)}
	for lane := range b.ended {
		last, found, err := log.LastRecord(ctx, schemas.Pairs, lane)
		if err != nil {
			return nil, err
		}
		b.ended[lane] = laneTopic{last: last, found: found}.sealed()
	}
	return b, nil
}

// Check returns nil if d may return, and otherwise the reason.
func (b *PutBack) Check(d stream.DeadLetter) error {
	switch {
	case b.done[d.Number]:
		return fmt.Errorf("dead letter %d %w: it was put back before; its number alone puts it back again", d.Number, ErrStays)
	case d.Cut > 0:
		return fmt.Errorf("dead letter %d %w: only %d of its %d bytes were kept", d.Number, ErrStays, len(d.Value), d.Cut)
	case d.Topic != schemas.Pairs:
		return fmt.Errorf("dead letter %d %w: it comes from %q, and only %s take records from outside", d.Number, ErrStays, d.Topic, schemas.Pairs)
	case d.Lane < 0 || d.Lane >= len(b.ended):
		return fmt.Errorf("dead letter %d %w: it comes from lane %d, and LANES=%d", d.Number, ErrStays, d.Lane, len(b.ended))
	case b.ended[d.Lane]:
		return fmt.Errorf("dead letter %d %w: lane %d has ended with a final seal", d.Number, ErrStays, d.Lane)
	}
	return nil
}
