package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// ends holds the lanes that have ended without a last group, by lane: the step from which they count as ended. The decay of
// the learning rate waits for every lane. With [Rotation] that step follows from the order. With [Arrival] it is the moment
// when the seal was read, which is chance. So it is noted in the log before the step is made, and steps that are repeated
// or replayed keep to it.
type ends map[int]int64

const endsPrefix = "trainer/ended/"

// end is the note of a lane.
type end struct {
	Lane int   `json:"lane"`
	Step int64 `json:"step"`
}

// readEnds reads what is noted in a log.
func readEnds(ctx context.Context, log *stream.Log) (ends, error) {
	known := make(ends)
	err := log.Notes(ctx, schemas.Control, endsPrefix, func(_ string, value []byte) error {
		var e end
		err := json.Unmarshal(value, &e)
		known[e.Lane] = e.Step
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finding the lanes that have ended: %w", err)
	}
	return known, nil
}

// noteEnds notes lanes, and returns when the log has the notes.
func noteEnds(ctx context.Context, log *stream.Log, lanes ends) (err error) {
	if len(lanes) == 0 {
		return nil
	}
	p := log.NewPublisher(stream.PublisherOptions{Name: "control"})
	defer func() { err = errors.Join(err, p.Close(ctx)) }()
	for _, lane := range slices.Sorted(maps.Keys(lanes)) {
		if err := p.Note(ctx, schemas.Control, fmt.Sprint(endsPrefix, lane), end{lane, lanes[lane]}); err != nil {
			return err
		}
	}
	return nil
}

// countEnded counts lanes that have ended without a last group, for the step that is to be made next. A step that was
// written down has those that were counted then.
func (f *feed) countEnded(ctx context.Context) error {
	_, written := f.trail.lane(f.step)
	fresh := make(ends)
	for i := range f.at.Lanes {
		l := &f.at.Lanes[i]
		since, known := f.ends[l.Lane]
		if known = known && since <= f.step; !known && l.Ended && !l.Last && f.order == Arrival && !written {
			known, fresh[l.Lane] = true, f.step
		}
		if known && !l.Last {
			l.Last, l.Left = true, 0
		}
	}
	maps.Copy(f.ends, fresh)
	return noteEnds(ctx, f.log, fresh)
}
