package replay

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/asked"
	"github.com/pairstream/pairstream/internal/stream"
)

// FollowAsked lets every group of the replay ask the groups that the original has asked.
func (m *Manifest) FollowAsked(ctx context.Context, to *stream.Log) error {
	if len(m.Asked) == 0 {
		return nil
	}
	noted, err := asked.Notes.Read(ctx, to)
	if err != nil {
		return err
	}
	var missing []asked.Choice
	for _, c := range m.Asked {
		switch got, there := noted[c.Place]; {
		case !there:
			missing = append(missing, c)
		case !got.Equal(c):
			return fmt.Errorf("%w: group %d/%d asks the segments %v, and %v in the original", ErrNamespace, c.Lane, c.Group, got.Segments, c.Segments)
		}
	}
	return asked.Notes.Note(ctx, to, missing...)
}
