package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/log/tracing"
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
	seq   int64             // of the batch's feature block
	again bool              // the batch was trained on, and its features are due
	took  time.Duration     // of its first pass, where a step has two
	about []tracing.Subject // nil: it has no sampled pairs

	load   func(context.Context) error // fills input; nil: another rank has the images
	loaded chan error                  // one value, when load has ended
}

// feed takes the lanes in the set order, one batch each. It loads the images of a batch and sends them to the device,
// ahead of the training.
type feed struct {
	load func(context.Context, *schemas.ScoredBatch, []schemas.Mask) (trainer.Input, error)
	// wholeBatch leaves candidates out, so that the current model finds the hardest of all samples.
	wholeBatch bool
	masked     map[laneSeq][]schemas.Mask // of steps that are repeated, as published
	blocks     map[laneSeq]batchID        // the batches of those steps
	order      LaneOrder
	trail      trail
	ends       ends
	at         positions
	step       int64 // the next one
	metrics    *metrics
	lanes      *intake
	follower   *stream.Follower // fills lanes
	log        *stream.Log
	again      *stream.Reader // of the epoch that is encoded; nil: none is
	errands    *errands       // for other ranks; nil: there are none
}

// follow makes the follower that reads the lanes from the feed's positions on.
func (f *feed) follow(log *stream.Log, letters *stream.Publisher, tune stream.FollowSpec) {
	f.lanes, f.log = newIntake(f.at), log
	tune.Name, tune.Topic, tune.Letters, tune.Counters = Name, schemas.Scored, letters, f.metrics.Counters()
	tune.Writes = []schemas.Topic{schemas.Features}
	tune.Take, tune.Waiting = f.lanes.put, f.lanes.waitsFor
	tune.From = make(map[int]stream.Position)
	for _, l := range f.at.Lanes {
		if !l.Ended {
			tune.From[l.Lane] = l.Scored
		}
	}
	f.follower = log.Follow(tune)
}

// recall reads from the log the constraints of the steps to repeat: their masks, the order and the ends of lanes. last
// has the seq of each lane's last features.
func (f *feed) recall(ctx context.Context, s Settings, last map[int]int64) (err error) {
	from := published{f.log, f.follower.Whole}
	if f.masked, f.blocks, err = from.blocks(ctx, f.at); err != nil {
		return err
	}
	if f.trail, err = openTrail(ctx, from, s, f.at, f.step, last); err != nil {
		return fmt.Errorf("CHECKPOINT_DIR is %q: %w", s.Dir, err)
	}
	if f.ends, err = readEnds(ctx, f.log); err != nil {
		return errors.Join(err, f.trail.close())
	}
	return nil
}

// close closes the reader and the order file of the feed.
func (f *feed) close() error {
	if f.again != nil {
		f.again.Close()
	}
	return f.trail.close()
}

// run sends work until every lane has ended, and closes out at the end.
func (f *feed) run(ctx context.Context, out chan<- work) error {
	defer close(out)
	reading, ctx := errgroup.WithContext(ctx)
	reading.Go(func() error { return f.follower.Run(ctx) })
	reading.Go(func() error {
		return loadAhead(ctx, func(ctx context.Context) (*work, error) {
			w, err := f.next(ctx)
			if err == nil && w == nil && f.errands != nil {
				err = f.errands.finish()
			}
			return w, err
		}, out)
	})
	return reading.Wait()
}

// next prepares the next batch. It returns nil when every lane has ended.
func (f *feed) next(ctx context.Context) (*work, error) {
	for {
		if i := f.at.encoding(); i != noLane {
			return f.encodeNext(ctx, i)
		}
		i, there, err := f.choose()
		switch {
		case err != nil:
			return nil, fmt.Errorf("choosing the lane of step %d: %w", f.step, err)
		case there:
			return f.take(ctx, i, f.lanes.take(i))
		case f.at.ended():
			return nil, nil
		}
		select {
		case <-f.lanes.news:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// choose returns the index of the lane to take, and whether its batch has arrived.
func (f *feed) choose() (i int, there bool, err error) {
	states := make([]laneState, len(f.at.Lanes))
	for i := range f.at.Lanes {
		lane := &f.at.Lanes[i]
		switch head := f.lanes.look(i); {
		case head != nil && head.batch == nil:
			lane.moveTo(f.lanes.take(i).rec)
			lane.Ended = true
			states[i] = ended
		case lane.Ended:
			states[i] = ended
		case head != nil:
			states[i] = ready
		}
	}
	written := noLane
	if lane, ok := f.trail.lane(f.step); ok {
		written = slices.IndexFunc(f.at.Lanes, func(l lanePosition) bool { return l.Lane == lane })
		if written == noLane {
			return noLane, false, fmt.Errorf("it was made on lane %d, which is not among those of this trainer (LANES)", lane)
		}
	}
	i, err = f.order.next(written, f.at.Turn, states)
	if err != nil {
		return noLane, false, fmt.Errorf("it was made on lane %d: %w", f.at.Lanes[written].Lane, err)
	}
	there = i != noLane && states[i] == ready
	f.lanes.wanted.Store(noLane)
	if !there && slices.Contains(states, ready) {
		f.lanes.wanted.Store(int64(i))
	}
	return i, there, nil
}

// take makes work of a batch.
func (f *feed) take(ctx context.Context, i int, a *arrived) (*work, error) {
	lane := &f.at.Lanes[i]
	if err := f.countEnded(ctx); err != nil {
		return nil, err
	}
	if err := f.trail.took(f.step, lane.Lane); err != nil {
		return nil, err
	}
	if _, written := f.trail.lane(f.step); f.order == Rotation && !written {
		f.at.passOver(i)
	}
	f.step++
	f.follower.Pulse(lane.Lane).Take()
	f.metrics.PairsIn(len(a.batch.Samples))
	if f.wholeBatch {
		forgetCandidates(a.batch)
	}
	w := &work{lane: lane.Lane, batch: a.batch, rec: a.rec, seq: lane.Features}
	f.trace(w)
	if a.batch.Again {
		var err error
		if w.seq, err = lane.begin(a.batch, f.order); err != nil {
			return nil, err
		}
	} else {
		lane.Features++
	}
	lane.moveTo(a.rec)
	f.at.Turn = (i + 1) % len(f.at.Lanes)
	decay := f.at.pass(i, a.batch)
	w.after = f.at.clone()
	return w, f.prepare(w, decay)
}

// prepare sets how the images of a batch are loaded, or hands the batch to its rank.
func (f *feed) prepare(w *work, decay trainer.Decay) error {
	known := f.masked[laneSeq{w.lane, w.seq}]
	if f.errands != nil {
		if given, err := f.errands.give(w, known, decay); given || err != nil {
			return err
		}
	}
	w.load = func(ctx context.Context) (err error) {
		ctx, loaded := timed(ctx, f.log.Tracer(), w.about, "load")
		defer loaded()
		w.input, err = f.load(ctx, w.batch, known)
		w.input.Decay = decay
		return err
	}
	return nil
}

// forgetCandidates drops Con-D's candidates, so that the model looks for negatives in the whole batch.
func forgetCandidates(b *schemas.ScoredBatch) {
	b.M, b.I2T, b.T2I, b.ProbI2T, b.ProbT2I = 0, nil, nil, nil, nil
}

// arrived is a lane's next batch, or its end.
type arrived struct {
	batch *schemas.ScoredBatch // nil: the lane has ended
	rec   stream.Record
}

// intake queues the next records of the lanes, a batch or two ahead of the training. Each lane fills its queue by
// itself.
type intake struct {
	lanes  []int
	queues []chan arrived
	heads  []*arrived             // taken from the queues, by index of the lane
	latest []*schemas.ScoredBatch // last batch read of each lane; nil: none yet
	news   chan struct{}          // signals that something was queued
	wanted atomic.Int64           // index of the lane that must make the next step while others wait, or noLane
}

func newIntake(at positions) *intake {
	in := &intake{
		heads: make([]*arrived, len(at.Lanes)), latest: make([]*schemas.ScoredBatch, len(at.Lanes)), news: make(chan struct{}, 1),
	}
	for _, l := range at.Lanes {
		in.lanes = append(in.lanes, l.Lane)
		in.queues = append(in.queues, make(chan arrived, 1))
	}
	in.wanted.Store(noLane)
	return in
}

// put queues a record of a lane. Records other than batches and seals are poison.
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

// waitsForTurn describes why the batches of lane i wait. Empty means that training is busy.
func (in *intake) waitsForTurn(i int) string {
	w := int(in.wanted.Load())
	if w == noLane || w == i {
		return ""
	}
	return fmt.Sprintf("its turn: the order of lanes makes the next step on lane %d", in.lanes[w])
}

// waitsFor describes the record that an empty lane waits for, and reports whether the order makes other lanes wait for
// it.
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
