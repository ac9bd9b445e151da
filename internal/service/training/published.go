package training

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// publishedOrder is the order that the features in the log tell of, each block naming its step: from a step on, whose
// places in the lanes are given, as far as it has no gap.
func publishedOrder(ctx context.Context, log *stream.Log, at positions, step int64) ([]turn, error) {
	known := make(order)
	for _, l := range at.Lanes {
		// Seqs have no gaps, so block s lies at offset s or, behind repetitions, further on.
		from := stream.Position{Offset: l.Features, Seq: l.Features}
		for rec, err := range log.Records(ctx, schemas.Features, l.Lane, from, -1) {
			if err != nil {
				return nil, fmt.Errorf("reading the order of lanes from the features of lane %d: %w", l.Lane, err)
			}
			value, err := schemas.Unmarshal(rec.Schema, rec.Value)
			block, ok := value.(*schemas.FeatureBlock)
			if err == nil && !ok {
				err = errors.New("it holds a " + rec.Schema)
			}
			if err == nil && block.Step >= step {
				err = known.add(turn{block.Step, l.Lane})
			}
			if err != nil {
				return nil, fmt.Errorf("reading the order of lanes from features %d of lane %d: %w", rec.Seq, l.Lane, err)
			}
		}
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

// CopyOrder writes into a checkpoint folder in which order the trainer of a log took its lanes, for a trainer in
// another namespace that shall do as it did, and returns the number of its steps. A folder whose trainer has gone another
// way since, beyond what the log knew then, is left as it is.
func CopyOrder(ctx context.Context, from *stream.Log, dir, namespace string) (steps int, err error) {
	lanes := make([]int, from.Config().Lanes)
	for i := range lanes {
		lanes[i] = i
	}
	turns, err := publishedOrder(ctx, from, startOf(lanes), 0)
	if err != nil {
		return 0, err
	}
	file, known, err := openOrderFile(dir, namespace, 0)
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

// trail is the order that is written down already, and where it is continued.
type trail struct {
	known order
	file  *orderFile // nil: nothing is written down
}

// openTrail finds out what is known of the order from a step on. last has the seq of each lane's last features.
func openTrail(ctx context.Context, log *stream.Log, s Settings, at positions, step int64, last map[int]int64) (trail, error) {
	namespace := log.Config().Namespace
	if s.Order != Arrival { // it follows what was written while the setting was another
		known, err := readOrder(s.Dir, namespace, step)
		return trail{known: known}, err
	}
	file, known, err := openOrderFile(s.Dir, namespace, step)
	if err != nil {
		return trail{}, err
	}
	t := trail{known, file}
	if !known.covers(at, step, last) { // the file is lost, or the setting was another
		if err := t.learn(ctx, log, at, step); err != nil {
			return trail{}, errors.Join(err, file.Close())
		}
	}
	return t, nil
}

// learn adds what the log knows.
func (t trail) learn(ctx context.Context, log *stream.Log, at positions, step int64) error {
	turns, err := publishedOrder(ctx, log, at, step)
	if err != nil {
		return err
	}
	fresh, err := t.known.merge(turns)
	if err != nil {
		return fmt.Errorf("comparing the order of lanes with the features in the log: %w", err)
	}
	return t.file.add(fresh...)
}

// lane is the lane of a step, if it is known.
func (t trail) lane(step int64) (int, bool) {
	lane, ok := t.known[step]
	return lane, ok
}

// took notes that a step is to be made on a lane. From here on it never is on another.
func (t trail) took(step int64, lane int) error {
	if _, ok := t.known[step]; ok || t.file == nil {
		return nil
	}
	return t.file.add(turn{step, lane})
}

// close gives the file back.
func (t trail) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}
