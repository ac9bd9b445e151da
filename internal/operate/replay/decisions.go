package replay

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/scope"
)

// FollowAsked makes every group of the replay search the closed groups that it searched in the original.
func (m *Manifest) FollowAsked(ctx context.Context, to *stream.Log) error {
	return scope.Notes.Repeat(ctx, to, m.Asked, func(got, want scope.Choice) error {
		if got.Equal(want) {
			return nil
		}
		return fmt.Errorf("%w: group %d/%d searches the segments %v, and %v in the original", ErrNamespace, want.Lane, want.Group, got.Segments, want.Segments)
	})
}

// FollowJudgements makes the replay's discriminator count the judgements that the original's had counted before each
// group and epoch.
func (m *Manifest) FollowJudgements(ctx context.Context, to *stream.Log) error {
	return feedback.Notes.Repeat(ctx, to, m.Judged, func(got, want feedback.Count) error {
		if got == want {
			return nil
		}
		return fmt.Errorf("%w: in epoch %d of group %d/%d people call %d of %d connections a match, and %d of %d in the original",
			ErrNamespace, want.Epoch, want.Lane, want.Group, got.Right, got.Judged, want.Right, want.Judged)
	})
}
