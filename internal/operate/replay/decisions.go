package replay

import (
	"context"
	"fmt"

	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/neighbors/scope"
)

// FollowAsked lets every group of the replay ask the groups that the original has asked.
func (m *Manifest) FollowAsked(ctx context.Context, to *stream.Log) error {
	return scope.Notes.Repeat(ctx, to, m.Asked, func(got, want scope.Choice) error {
		if got.Equal(want) {
			return nil
		}
		return fmt.Errorf("%w: group %d/%d asks the segments %v, and %v in the original", ErrNamespace, want.Lane, want.Group, got.Segments, want.Segments)
	})
}

// FollowJudgements lets the replay's discriminator count what people had said of connections at each place of the
// original.
func (m *Manifest) FollowJudgements(ctx context.Context, to *stream.Log) error {
	return feedback.Notes.Repeat(ctx, to, m.Judged, func(got, want feedback.Count) error {
		if got == want {
			return nil
		}
		return fmt.Errorf("%w: in epoch %d of group %d/%d people call %d of %d connections a match, and %d of %d in the original",
			ErrNamespace, want.Epoch, want.Lane, want.Group, got.Right, got.Judged, want.Right, want.Judged)
	})
}
