package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// published reads the features that the log has.
type published struct {
	log *stream.Log
	// whole reads a lane again while it is damaged; nil: each lane is read once.
	whole func(ctx context.Context, topic schemas.Topic, lane int, from stream.Position, read func() error) error
}

// order reads the order from the features, where each block names its step. It starts from a step with the given
// positions in the lanes, and stops at the first gap.
func (p published) order(ctx context.Context, at positions, step int64) ([]turn, error) {
	known := make(order)
	err := p.each(ctx, at, func(lane int, _ int64, block *schemas.FeatureBlock) error {
		if block.Step < step {
			return nil
		}
		return known.add(turn{block.Step, lane})
	})
	if err != nil {
		return nil, fmt.Errorf("finding the order of lanes: %w", err)
	}
	var turns []turn
	for _, s := range slices.Sorted(maps.Keys(known)) {
		if s != step+int64(len(turns)) {
			break
		}
		turns = append(turns, turn{s, known[s]})
	}
	return turns, nil
}

// laneSeq identifies a batch and its feature block by lane and seq.
type laneSeq struct {
	lane int
	seq  int64
}

// batchID names a batch of a lane.
type batchID struct {
	group           schemas.GroupID
	epoch, sequence int32
}

// blocks returns the masks and the batches of the feature blocks after the positions. They belong to the steps that
// will be repeated.
func (p published) blocks(ctx context.Context, at positions) (map[laneSeq][]schemas.Mask, map[laneSeq]batchID, error) {
	masks, of := make(map[laneSeq][]schemas.Mask), make(map[laneSeq]batchID)
	err := p.each(ctx, at, func(lane int, seq int64, block *schemas.FeatureBlock) error {
		if len(block.Masked) > 0 {
			masks[laneSeq{lane, seq}] = block.Masked
		}
		of[laneSeq{lane, seq}] = batchID{block.Group, block.Epoch, block.Sequence}
		return nil
	})
	return masks, of, err
}

// each calls visit with the feature blocks after the positions, and once more for a lane that was damaged meanwhile.
func (p published) each(ctx context.Context, at positions, visit func(lane int, seq int64, block *schemas.FeatureBlock) error) error {
	for _, l := range at.Lanes {
		read := func() error { return p.lane(ctx, l, visit) }
		err := error(nil)
		if p.whole == nil {
			err = read()
		} else {
			err = p.whole(ctx, schemas.Features, l.Lane, stream.Position{Offset: l.Features, Seq: l.Features}, read)
		}
		if err != nil {
			return fmt.Errorf("reading the features of lane %d: %w", l.Lane, err)
		}
	}
	return nil
}

// lane calls visit with the feature blocks of one lane.
func (p published) lane(ctx context.Context, l lanePosition, visit func(lane int, seq int64, block *schemas.FeatureBlock) error) error {
	if b, err := p.log.Bounds(ctx, schemas.Features, l.Lane); err != nil || b.Start == b.End {
		return err // there are none, or none any more
	}
	// Seqs have no gaps, so block s lies at offset s or, behind repetitions, further on.
	from := stream.Position{Offset: l.Features, Seq: l.Features}
	for rec, err := range p.log.Records(ctx, schemas.Features, l.Lane, from, -1) {
		if err != nil {
			return err
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		block, ok := value.(*schemas.FeatureBlock)
		if err == nil && !ok {
			err = errors.New("it holds a " + rec.Schema)
		}
		if err == nil {
			err = visit(l.Lane, rec.Seq, block)
		}
		if err := stream.NewerVersion(&rec, err); errors.Is(err, stream.ErrDamaged) {
			return err
		} else if err != nil {
			return fmt.Errorf("features %d: %w", rec.Seq, err)
		}
	}
	return nil
}

// CopyOrder writes the order of lanes of a log's trainer into a checkpoint folder of another log. It notes in that log
// the steps from which lanes counted as ended. The trainer there follows both. CopyOrder returns the number of steps.
// If the folder's trainer has since taken another order, CopyOrder adds no turn after the contradiction.
func CopyOrder(ctx context.Context, from, to *stream.Log, dir string) (steps int, err error) {
	ended, err := readEnds(ctx, from)
	if err != nil {
		return 0, err
	}
	if err := noteEnds(ctx, to, ended); err != nil {
		return 0, err
	}
	lanes := make([]int, from.Config().Lanes)
	for i := range lanes {
		lanes[i] = i
	}
	turns, err := published{log: from}.order(ctx, startOf(lanes), 0)
	if err != nil {
		return 0, err
	}
	file, known, err := openOrderFile(dir, to.Config().Namespace, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	fresh, err := known.merge(turns)
	if err != nil {
		return len(known), nil
	}
	return len(turns), file.add(fresh...)
}

// trail holds the order that is written down already, and the file that continues it.
type trail struct {
	known order
	file  *orderFile // nil: nothing is written down
}

// openTrail finds the known order from a step on. last has the seq of each lane's last features.
func openTrail(ctx context.Context, from published, s Settings, at positions, step int64, last map[int]int64) (trail, error) {
	namespace := from.log.Config().Namespace
	if s.Order != Arrival { // such a trainer follows the file of an earlier setting
		known, err := readOrder(s.Dir, namespace, step)
		return trail{known: known}, err
	}
	file, known, err := openOrderFile(s.Dir, namespace, step)
	if err != nil {
		return trail{}, err
	}
	t := trail{known, file}
	if !known.covers(at, step, last) { // the file is lost, or the setting was another
		if err := t.learn(ctx, from, at, step); err != nil {
			return trail{}, errors.Join(err, file.Close())
		}
	}
	return t, nil
}

// learn adds the turns that the log shows.
func (t trail) learn(ctx context.Context, from published, at positions, step int64) error {
	turns, err := from.order(ctx, at, step)
	if err != nil {
		return err
	}
	fresh, err := t.known.merge(turns)
	if err != nil {
		return fmt.Errorf("comparing the order of lanes with the features in the log: %w", err)
	}
	return t.file.add(fresh...)
}

// lane returns the lane of a step, if it is known.
func (t trail) lane(step int64) (int, bool) {
	lane, ok := t.known[step]
	return lane, ok
}

// took records that a step will be made on a lane. From then on it is never made on another lane.
func (t trail) took(step int64, lane int) error {
	if _, ok := t.known[step]; ok || t.file == nil {
		return nil
	}
	return t.file.add(turn{step, lane})
}

// close closes the file.
func (t trail) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
