package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// The features of a batch with [schemas.Batch.Again] are made when its epoch is over. The steps of the epoch publish
// none. After the last step the batches of the epoch are read again, in order, and encoded with the weights current at
// that time, before any other step. So the features are still a function of the steps before them. The positions hold
// the next batch to encode.

// begin records the start of an epoch whose features are to be made anew, and returns the seq of the batch's features.
// The position must be before the batch.
func (l *lanePosition) begin(b *schemas.ScoredBatch, order LaneOrder) (seq int64, err error) {
	if order == Arrival {
		return 0, errors.New("GRIT_FEATURES is current, which needs TRAIN_LANE_ORDER=rotation: in the order of arrival every step has to publish its features")
	}
	if b.Sequence == 0 {
		before := l.Scored
		l.Epoch = &before
	}
	if l.Epoch == nil {
		return 0, fmt.Errorf("batch %d of group %s, epoch %d: the features of its epoch (GRIT_FEATURES=current) need the batches before it, but training begins within the epoch; want TRAIN_FROM=start or the checkpoint",
			b.Sequence, b.Group, b.Epoch)
	}
	if b.Sequence == b.Batches-1 {
		l.Again = int64(b.Batches)
	}
	return l.Features + int64(b.Sequence), nil
}

// encoding returns the index of the lane whose features are due, or noLane.
func (p positions) encoding() int {
	return slices.IndexFunc(p.Lanes, func(l lanePosition) bool { return l.Again > 0 })
}

// encodeNext makes work of the next batch whose features are due in lane i.
func (f *feed) encodeNext(ctx context.Context, i int) (*work, error) {
	lane := &f.at.Lanes[i]
	if f.again == nil {
		f.again = f.log.OpenReader(schemas.Scored, lane.Lane, *lane.Epoch, stream.ReaderOptions{Name: Name + "-again"})
	}
	for {
		rec, err := f.again.Next(ctx)
		if errors.Is(err, stream.ErrPoison) {
			continue // it was set aside when the lane was read
		}
		if err != nil {
			return nil, fmt.Errorf("reading an epoch of lane %d again: %w", lane.Lane, err)
		}
		value, err := schemas.Unmarshal(rec.Schema, rec.Value)
		batch, ok := value.(*schemas.ScoredBatch)
		if err != nil || !ok {
			continue
		}
		w := &work{lane: lane.Lane, batch: batch, rec: rec, seq: lane.Features, again: true}
		next := f.again.Position()
		lane.Features, lane.Again, lane.Epoch = lane.Features+1, lane.Again-1, &next
		if lane.Again == 0 {
			f.again.Close()
			f.again, lane.Epoch = nil, nil
		}
		w.after = f.at.clone()
		f.follower.Pulse(lane.Lane).Take()
		return w, f.prepare(w, trainer.Decay{})
	}
}

// encode makes and publishes the features of a batch that was trained on.
func (l *loop) encode(ctx context.Context, w work) error {
	features, err := l.core.Encode(ctx, w.batch, w.input)
	if err != nil {
		return err
	}
	if err := l.publish(ctx, w, features); err != nil {
		return fmt.Errorf("publishing features of lane %d: %w", w.lane, err)
	}
	if !l.within {
		l.trained, l.at = true, w.after
	}
	l.open = w.after
	return nil
}
