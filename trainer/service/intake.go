package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// arrived is the next thing that a lane has to give: a batch, or its end.
type arrived struct {
	batch *schemas.ScoredBatch // nil: the lane has ended
	rec   stream.Record
}

// intake holds what the lanes have to give, a batch or two ahead of the training. Each lane fills its queue by itself.
type intake struct {
	lanes  []int
	queues []chan arrived
	heads  []*arrived             // taken from the queues, by index of the lane
	latest []*schemas.ScoredBatch // that the lane has read; nil: none yet
	news   chan struct{}          // signals that something was queued
	wanted atomic.Int64           // index of the lane that the next step is made on and that others wait for, or nobody
}

func newIntake(at positions) *intake {
	in := &intake{
		heads: make([]*arrived, len(at.Lanes)), latest: make([]*schemas.ScoredBatch, len(at.Lanes)), news: make(chan struct{}, 1),
	}
	for _, l := range at.Lanes {
		in.lanes = append(in.lanes, l.Lane)
		in.queues = append(in.queues, make(chan arrived, 1))
	}
	in.wanted.Store(nobody)
	return in
}

// put queues a record of a lane. What is neither batch nor seal is poison.
func (in *intake) put(ctx context.Context, lane *stream.FollowedLane, rec stream.Record) error {
	a := arrived{rec: rec}
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	switch v := value.(type) {
	case *schemas.ScoredBatch:
		a.batch = v
	case *schemas.Seal:
		if !v.Final {
			return nil
		}
	case nil:
		return stream.Poison(err)
	default:
		return stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
	}
	i := slices.Index(in.lanes, lane.ID)
	err = lane.Wait(ctx, func(ctx context.Context) error {
		select {
		case in.queues[i] <- a:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func() (string, bool) { return in.waitsForTurn(i), false })
	if err != nil {
		return err
	}
	in.latest[i] = a.batch
	select {
	case in.news <- struct{}{}:
	default: // a signal is waiting already
	}
	if a.batch == nil {
		return io.EOF
	}
	return nil
}

// waitsForTurn says why the batches of lane i are not trained on. Empty means that training is busy.
func (in *intake) waitsForTurn(i int) string {
	w := int(in.wanted.Load())
	if w == nobody || w == i {
		return ""
	}
	return fmt.Sprintf("its turn: the order of lanes makes the next step on lane %d", in.lanes[w])
}

// waitsFor says what a lane waits for that has no record, and whether the order makes other lanes wait as well.
func (in *intake) waitsFor(lane int) (what string, held bool) {
	i := slices.Index(in.lanes, lane)
	what = string(schemas.Scored)
	if b := in.latest[i]; b != nil {
		what = fmt.Sprintf("%s behind batch %d of %d, epoch %d, group %s", what, b.Sequence+1, b.Batches, b.Epoch, b.Group)
	}
	if held = int(in.wanted.Load()) == i; held {
		what += "; the order of lanes makes the next step here"
	}
	return what, held
}

// look returns what lane i has to give next, or nil if nothing has arrived.
func (in *intake) look(i int) *arrived {
	if in.heads[i] == nil {
		select {
		case a := <-in.queues[i]:
			in.heads[i] = &a
		default:
		}
	}
	return in.heads[i]
}

// take removes what look returned.
func (in *intake) take(i int) *arrived {
	a := in.heads[i]
	in.heads[i] = nil
	return a
}
