package service

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
	"github.com/pairstream/pairstream/trainer"
)

// work is a batch that is ready for a step, and the trainer's positions after the step.
type work struct {
	lane  int
	batch *schemas.ScoredBatch
	rec   stream.Record // that holds it
	input trainer.Input
	after positions
	seq   int64 // of the batch's feature block
}

// feed takes the lanes in the set order, one batch each. It loads the images of a batch and sends them to the device,
// ahead of the training.
type feed struct {
	log       *stream.Log
	publisher *stream.Publisher
	load      func(context.Context, *schemas.ScoredBatch, []schemas.Mask) (trainer.Input, error)
	// wholeBatch leaves candidates out, so that the current model finds the hardest of all samples.
	wholeBatch bool
	masked     map[place][]schemas.Mask // of steps that are repeated, as they were published
	order      LaneOrder
	trail      trail
	at         positions
	step       int64 // the next one
	metrics    *metrics
	watchdog   *stream.Watchdog
}

// run sends work until every lane has ended, and closes out at the end.
func (f *feed) run(ctx context.Context, out chan<- work) error {
	defer close(out)
	reading, ctx := errgroup.WithContext(ctx)
	in := startIntake(ctx, reading, f.log, f.publisher, f.at, stream.ReaderOptions{Name: Name, Counters: f.metrics.Counters()})
	reading.Go(func() error {
		for {
			w, err := f.next(ctx, in)
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

// next prepares the next batch. It returns nil when every lane has ended.
func (f *feed) next(ctx context.Context, in *intake) (*work, error) {
	for {
		i, err := f.choose(in)
		switch {
		case err != nil:
			return nil, fmt.Errorf("choosing the lane of step %d: %w", f.step, err)
		case i != nobody:
			return f.take(ctx, i, in.take(i))
		case f.at.ended():
			return nil, nil
		}
		select {
		case <-in.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// choose returns the index of the lane to take, or nobody while that lane's batch has not arrived.
func (f *feed) choose(in *intake) (int, error) {
	states := make([]laneState, len(f.at.Lanes))
	for i := range f.at.Lanes {
		lane := &f.at.Lanes[i]
		switch head := in.look(i); {
		case head != nil && head.batch == nil:
			lane.moveTo(in.take(i))
			lane.Ended = true
			states[i] = ended
		case lane.Ended:
			states[i] = ended
		case head != nil:
			states[i] = ready
		}
	}
	written := nobody
	if lane, ok := f.trail.lane(f.step); ok {
		written = slices.IndexFunc(f.at.Lanes, func(l lanePosition) bool { return l.Lane == lane })
		if written == nobody {
			return nobody, fmt.Errorf("it was made on lane %d, which is not among those of this trainer (LANES)", lane)
		}
	}
	i, err := f.order.next(written, f.at.Turn, states)
	if err != nil {
		return nobody, fmt.Errorf("it was made on lane %d: %w", f.at.Lanes[written].Lane, err)
	}
	return i, nil
}

// take makes work of a batch.
func (f *feed) take(ctx context.Context, i int, a *arrived) (*work, error) {
	lane := &f.at.Lanes[i]
	if err := f.trail.took(f.step, lane.Lane); err != nil {
		return nil, err
	}
	if _, written := f.trail.lane(f.step); f.order == Rotation && !written {
		f.at.passOver(i) // who arrived first decides in the other order, so that what has not arrived counts as going on
	}
	f.step++
	f.watchdog.Lane(lane.Lane).Take()
	f.metrics.PairsIn(len(a.batch.Samples))
	if f.wholeBatch {
		a.batch.M, a.batch.I2T, a.batch.T2I, a.batch.ProbI2T, a.batch.ProbT2I = 0, nil, nil, nil, nil
	}
	w := &work{lane: lane.Lane, batch: a.batch, rec: a.rec, seq: lane.Features}
	lane.moveTo(a)
	lane.Features++
	f.at.Turn = (i + 1) % len(f.at.Lanes)
	decay := f.at.pass(i, a.batch)
	w.after = f.at.clone()
	var err error
	w.input, err = f.load(ctx, a.batch, f.masked[place{w.lane, w.seq}])
	w.input.Decay = decay
	return w, err
}
