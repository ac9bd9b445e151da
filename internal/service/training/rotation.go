package training

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// work is a batch that is ready for a step, and where the trainer is once the step is done.
type work struct {
	lane  int
	batch *schemas.ScoredBatch
	input trainer.Input
	after positions
	seq   int64 // of the batch's feature block
}

// rotation takes the lanes in the order that is set, one batch each, loads its images and sends them to the device, ahead
// of the training.
type rotation struct {
	log       *stream.Log
	publisher *stream.Publisher
	load      func(context.Context, *schemas.ScoredBatch) (trainer.Input, error)
	order     LaneOrder
	trail     trail
	at        positions
	step      int64 // the next one
	meter     *meter
	watchdog  *stream.Watchdog
}

// run sends work until every lane has ended, then closes out.
func (r *rotation) run(ctx context.Context, out chan<- work) error {
	defer close(out)
	reading, ctx := errgroup.WithContext(ctx)
	in := startIntake(ctx, reading, r.log, r.publisher, r.at, stream.ReaderOptions{Name: Name, Counters: r.meter.Counters()})
	reading.Go(func() error {
		for {
			w, err := r.next(ctx, in)
			if w == nil || err != nil {
				return err
			}
			select {
			case out <- *w:
			case <-ctx.Done():
				w.input.Free()
				return ctx.Err()
			}
		}
	})
	return reading.Wait()
}

// next prepares the next batch; nil: every lane has ended.
func (r *rotation) next(ctx context.Context, in *intake) (*work, error) {
	for {
		i, err := r.choose(in)
		switch {
		case err != nil:
			return nil, fmt.Errorf("choosing the lane of step %d: %w", r.step, err)
		case i != nobody:
			return r.take(ctx, i, in.take(i))
		case r.at.ended():
			return nil, nil
		}
		select {
		case <-in.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// choose is the index of the lane to take, nobody as long as it has to be waited for.
func (r *rotation) choose(in *intake) (int, error) {
	states := make([]laneState, len(r.at.Lanes))
	for i := range r.at.Lanes {
		lane := &r.at.Lanes[i]
		switch head := in.look(i); {
		case head != nil && head.batch == nil:
			lane.Scored, lane.Ended = in.take(i).after, true
			states[i] = ended
		case lane.Ended:
			states[i] = ended
		case head != nil:
			states[i] = ready
		}
	}
	written := nobody
	if lane, ok := r.trail.lane(r.step); ok {
		written = slices.IndexFunc(r.at.Lanes, func(l lanePosition) bool { return l.Lane == lane })
		if written == nobody {
			return nobody, fmt.Errorf("it was made on lane %d, which is not among those of this trainer (LANES, RANK, WORLD_SIZE)", lane)
		}
	}
	i, err := r.order.next(written, r.at.Turn, states)
	if err != nil {
		return nobody, fmt.Errorf("it was made on lane %d: %w", r.at.Lanes[written].Lane, err)
	}
	return i, nil
}

// take makes work of a batch.
func (r *rotation) take(ctx context.Context, i int, a *arrived) (*work, error) {
	lane := &r.at.Lanes[i]
	if err := r.trail.took(r.step, lane.Lane); err != nil {
		return nil, err
	}
	r.step++
	r.watchdog.Lane(lane.Lane).Take()
	r.meter.PairsIn(len(a.batch.Samples))
	w := &work{lane: lane.Lane, batch: a.batch, seq: lane.Features}
	lane.Scored = a.after
	lane.Features++
	r.at.Turn = (i + 1) % len(r.at.Lanes)
	w.after = r.at.clone()
	var err error
	w.input, err = r.load(ctx, a.batch)
	return w, err
}
