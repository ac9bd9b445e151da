package replay

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/judged"
	"github.com/pairstream/pairstream/internal/stream"
)

// FollowJudgements lets the replay's discriminator count what people had said of connections at each place of the original.
func (m *Manifest) FollowJudgements(ctx context.Context, to *stream.Log) error {
	if len(m.Judged) == 0 {
		return nil
	}
	noted, err := judged.Notes.Read(ctx, to)
	if err != nil {
		return err
	}
	var missing []judged.Count
	for _, c := range m.Judged {
		switch got, there := noted[c.Place]; {
		case !there:
			missing = append(missing, c)
		case got != c:
			return fmt.Errorf("%w: in epoch %d of group %d/%d people call %d of %d connections a match, and %d of %d in the original",
				ErrNamespace, c.Epoch, c.Lane, c.Group, got.Right, got.Judged, c.Right, c.Judged)
		}
	}
	return judged.Notes.Note(ctx, to, missing...)
}
