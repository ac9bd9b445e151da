package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pairstream/pairstream/internal/asked"
	"github.com/pairstream/pairstream/internal/judged"
	"github.com/pairstream/pairstream/internal/latest"
	"github.com/pairstream/pairstream/internal/stream"
)

// FollowAsked lets every group of the replay ask the groups that the original has asked.
func (m *Manifest) FollowAsked(ctx context.Context, to *stream.Log) error {
	return asked.Notes.Repeat(ctx, to, m.Asked, func(got, want asked.Choice) error {
		if got.Equal(want) {
			return nil
		}
		return fmt.Errorf("%w: group %d/%d asks the segments %v, and %v in the original", ErrNamespace, want.Lane, want.Group, got.Segments, want.Segments)
	})
}

// FollowJudgements lets the replay's discriminator count what people had said of connections at each place of the original.
func (m *Manifest) FollowJudgements(ctx context.Context, to *stream.Log) error {
	return judged.Notes.Repeat(ctx, to, m.Judged, func(got, want judged.Count) error {
		if got == want {
			return nil
		}
		return fmt.Errorf("%w: in epoch %d of group %d/%d people call %d of %d connections a match, and %d of %d in the original",
			ErrNamespace, want.Epoch, want.Lane, want.Group, got.Right, got.Judged, want.Right, want.Judged)
	})
}

// FollowWeights lets the replay's encoder use the weights of the original's from the same records on, where that followed
// the trainer. It copies their files from the original's folder of checkpoints to the replay's. The replay's trainer makes
// the files again that are not there any more, at their steps; FollowWeights returns these, and without a trainer it refuses.
func (m *Manifest) FollowWeights(ctx context.Context, to *stream.Log, folder string, withoutTrainer bool) (gone []string, err error) {
	if len(m.Choices) == 0 {
		return nil, nil
	}
	var again []latest.Weights
	from := m.Settings["CHECKPOINT_DIR"]
	for _, w := range m.Weights {
		err := latest.Copy(from, folder, w)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			gone = append(gone, latest.File(from, w.Fingerprint))
			if w.SHA256 != "" { // else nobody has said at which step they were made
				again = append(again, w)
			}
		case err != nil:
			return nil, fmt.Errorf("copying the weights that the encoder has used: %w", err)
		}
	}
	if len(gone) > 0 && withoutTrainer {
		return nil, fmt.Errorf("the encoder has used weights whose file %s is gone, and nobody makes it again: put it back, or replay with the trainer", gone[0])
	}
	if err := latest.Want(ctx, to, again...); err != nil {
		return nil, err
	}
	n, err := latest.Read(ctx, to)
	if err != nil {
		return nil, err
	}
	var missing []latest.Choice
	for _, c := range m.Choices {
		switch got := n.Chosen(c.Lane, c.Seq); got {
		case c.Fingerprint:
		case "":
			missing = append(missing, c)
		default:
			return nil, fmt.Errorf("%w: from record %d of lane %d on it has the weights %s, and the original %s", ErrNamespace, c.Seq, c.Lane, got, c.Fingerprint)
		}
	}
	return gone, latest.Propose(ctx, to, missing...)
}
