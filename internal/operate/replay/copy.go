package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/weights"
	"github.com/pairstream/pairstream/schemas"
)

// copyPairs copies the pairs of a manifest from one namespace to the other. It continues an interrupted copy, and checks
// that the copy is complete.
func copyPairs(ctx context.Context, m *Manifest, from, to *stream.Log) ([]shifts, error) {
	all := make([]shifts, m.Lanes)
	publisher := to.NewPublisher(stream.PublisherOptions{Name: "replay"})
	lanes, lctx := errgroup.WithContext(ctx)
	lanes.SetLimit(lanesAtOnce)
	for _, r := range m.Pairs {
		lanes.Go(func() error {
			var err error
			if all[r.Lane], err = copyLane(lctx, r, from, to, publisher); err != nil {
				return fmt.Errorf("copying pairs of lane %d: %w", r.Lane, err)
			}
			return nil
		})
	}
	err := lanes.Wait()
	if err = errors.Join(err, publisher.Close(ctx)); err != nil {
		return nil, err
	}
	for _, r := range m.Pairs {
		if err := checkCopy(ctx, r, to); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// copySkips makes the replay's readers skip the records that operators skipped in the original. A replay has the same
// seqs. It has no foreign records, so skips of those are left out.
func copySkips(ctx context.Context, from, to *stream.Log) error {
	skips, err := from.Skips(ctx)
	if err != nil {
		return err
	}
	for _, s := range skips {
		if s.To.Seq == s.From.Seq {
			continue
		}
		s.From.Offset, s.To.Offset = s.From.Seq, s.To.Seq // or later, after repetitions
		if err := to.Skip(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func copyLane(ctx context.Context, r Range, from, to *stream.Log, publisher *stream.Publisher) (shifts, error) {
	b, err := from.Bounds(ctx, schemas.Pairs, r.Lane)
	switch {
	case err != nil:
		return nil, err
	case r.Records > 0 && b.Start > r.Start:
		return nil, fmt.Errorf("retention has removed what lay before offset %d, the run begins at %d", b.Start, r.Start)
	case b.End < r.End:
		return nil, fmt.Errorf("the log ends at offset %d, the run at %d: the manifest is of another log", b.End, r.End)
	}
	there, stop := iter.Pull2(to.Records(ctx, schemas.Pairs, r.Lane, stream.Position{}, -1))
	defer stop()
	var found shifts
	copied := int64(0)
	for rec, err := range from.Records(ctx, schemas.Pairs, r.Lane, stream.Position{Offset: r.Start}, r.End) {
		if err != nil {
			return nil, err
		}
		if n := len(found); n == 0 || rec.Offset-found[n-1].original != copied-found[n-1].copied {
			found = append(found, shift{copied, rec.Offset})
		}
		copied++
		if done, err := isCopied(rec, there); done || err != nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		if err := publisher.Copy(ctx, rec); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// isCopied reports whether the next record of the copy equals rec. It returns false at the end of the copy.
func isCopied(rec stream.Record, there func() (stream.Record, error, bool)) (bool, error) {
	got, err, ok := there()
	switch {
	case !ok || err != nil:
		return false, err
	case got.Schema != rec.Schema || !bytes.Equal(got.Value, rec.Value):
		return false, fmt.Errorf("%w: offset %d there holds another record than offset %d of the original", ErrNamespace, got.Offset, rec.Offset)
	}
	return true, nil
}

// ErrNamespace marks the refusal of a namespace.
var ErrNamespace = errors.New("choose another namespace")

// checkCopy compares a lane of the copy with the manifest. A produce request that is repeated after its answer was lost
// may write pairs twice, and the indexer would count them as duplicates.
func checkCopy(ctx context.Context, r Range, to *stream.Log) error {
	d, err := to.Digest(ctx, schemas.Pairs, r.Lane, stream.Position{}, -1)
	switch {
	case err != nil:
		return fmt.Errorf("checking the copy of lane %d: %w", r.Lane, err)
	case d.Records > r.Records:
		return fmt.Errorf("checking the copy of lane %d: %w: it holds %d pairs, want %d; another program wrote there, or a request was repeated", r.Lane, ErrNamespace, d.Records, r.Records)
	case d.Records < r.Records || d.Sum() != r.Digest:
		return fmt.Errorf("checking the copy of lane %d: %d pairs with digest %s, want %d with %s: the manifest is of another log", r.Lane, d.Records, d.Sum(), r.Records, r.Digest)
	}
	return nil
}

// spooled matches the URI of a tar of spooled images: the folder of a lane, and the offset of the tar's first pair.
var spooled = regexp.MustCompile(`^(file://.*)/lane-([0-9]{5,})/([0-9]{20})\.tar$`)

// shift maps offsets of the copy to offsets of the original, from one offset of the copy on.
type shift struct{ copied, original int64 }

// shifts are the shifts of one lane, ascending. There are several if the original has gaps.
type shifts []shift

// original returns the offset in the original of the record at an offset of the copy.
func (s shifts) original(copied int64) int64 {
	at := copied
	for _, x := range s {
		if x.copied > copied {
			break
		}
		at = copied - x.copied + x.original
	}
	return at
}

// places compares references to spooled images of a lane.
type places struct {
	namespace string
	lane      int
	shifts    shifts
	moved     int64 // references that are equal but for the folder and the offset
}

// same accepts the URIs of tars that hold the same images.
func (p *places) same(path string, original, replayed any) bool {
	a, aok := original.(string)
	b, bok := replayed.(string)
	if !aok || !bok || path != "uri" && !strings.HasSuffix(path, ".uri") {
		return false
	}
	from, to := spooled.FindStringSubmatch(a), spooled.FindStringSubmatch(b)
	if from == nil || to == nil || from[2] != to[2] || !strings.HasSuffix(to[1], "/"+p.namespace) {
		return false
	}
	lane, lerr := strconv.Atoi(to[2])
	began, aerr := strconv.ParseInt(from[3], 10, 64)
	copied, berr := strconv.ParseInt(to[3], 10, 64)
	if lerr != nil || aerr != nil || berr != nil || lane != p.lane || p.shifts.original(copied) != began {
		return false
	}
	p.moved++
	return true
}

// FollowWeights makes the replay's encoder load the same weights at the same records as the original's, if that encoder
// followed the trainer. It copies the files of the weights from the original's folder of checkpoints to the replay's. It
// returns the files that no longer exist: the replay's trainer writes them again at their steps. Without a trainer it
// refuses them.
func (m *Manifest) FollowWeights(ctx context.Context, to *stream.Log, folder string, withoutTrainer bool) (gone []string, err error) {
	if len(m.Choices) == 0 {
		return nil, nil
	}
	var again []weights.Weights
	from := m.Settings["CHECKPOINT_DIR"]
	for _, w := range m.Weights {
		err := weights.Copy(from, folder, w)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			gone = append(gone, weights.File(from, w.Fingerprint))
			if w.SHA256 != "" { // else the step that made them is not known
				again = append(again, w)
			}
		case err != nil:
			return nil, fmt.Errorf("copying the weights that the encoder has used: %w", err)
		}
	}
	if len(gone) > 0 && withoutTrainer {
		return nil, fmt.Errorf("the encoder has used weights whose file %s is gone, and nothing makes it again without a trainer: put it back, or replay with the trainer", gone[0])
	}
	if err := weights.Want(ctx, to, again...); err != nil {
		return nil, err
	}
	n, err := weights.Read(ctx, to)
	if err != nil {
		return nil, err
	}
	var missing []weights.Choice
	for _, c := range m.Choices {
		switch got := n.Chosen(c.Lane, c.Seq); got {
		case c.Fingerprint:
		case "":
			missing = append(missing, c)
		default:
			return nil, fmt.Errorf("%w: from record %d of lane %d on it has the weights %s, and the original %s", ErrNamespace, c.Seq, c.Lane, got, c.Fingerprint)
		}
	}
	return gone, weights.Propose(ctx, to, missing...)
}
