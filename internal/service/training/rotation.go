package training

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pairstream/pairstream/internal/service/samples"
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

// rotation reads the lanes in strict turn, one batch each, leaving out lanes that have ended: the order of steps is a
// function of the lanes' content alone. It reads and loads ahead of the training.
type rotation struct {
	log       *stream.Log
	logger    *slog.Logger
	publisher *stream.Publisher
	loader    *samples.Loader
	positives bool
	at        positions
	meter     *meter
	watchdog  *stream.Watchdog
	readers   map[int]*stream.Reader
}

// run sends work until every lane has ended, then closes out.
func (r *rotation) run(ctx context.Context, out chan<- work) error {
	defer close(out)
	r.readers = make(map[int]*stream.Reader)
	for _, l := range r.at.Lanes {
		r.readers[l.Lane] = r.log.OpenReader(schemas.Scored, l.Lane, l.Scored, stream.ReaderOptions{Name: Name, Counters: r.meter.Counters()})
		defer r.readers[l.Lane].Close()
	}
	if r.at.Lanes[r.at.Turn].Ended && !r.at.advance() {
		return nil
	}
	for {
		w, err := r.next(ctx)
		if err != nil {
			return err
		}
		if w == nil {
			return nil
		}
		select {
		case out <- *w:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next prepares the next batch; nil: every lane has ended.
func (r *rotation) next(ctx context.Context) (*work, error) {
	for {
		lane := &r.at.Lanes[r.at.Turn]
		batch, ended, err := r.read(ctx, lane.Lane)
		if err != nil {
			return nil, err
		}
		lane.Scored = r.readers[lane.Lane].Position()
		if ended {
			lane.Ended = true
			if !r.at.advance() {
				return nil, nil
			}
			continue
		}
		r.watchdog.Lane(lane.Lane).Take()
		r.meter.PairsIn(len(batch.Samples))
		w := &work{lane: lane.Lane, batch: batch, seq: lane.Features}
		lane.Features++
		r.at.advance()
		w.after = r.at.clone()
		w.input, err = r.load(ctx, batch)
		return w, err
	}
}

// read returns the next batch of a lane, or that the lane has ended. What is neither batch nor seal is set aside.
func (r *rotation) read(ctx context.Context, lane int) (batch *schemas.ScoredBatch, ended bool, err error) {
	for {
		rec, err := r.readers[lane].Next(ctx)
		if err == nil {
			var value schemas.Record
			value, err = schemas.Unmarshal(rec.Schema, rec.Value)
			switch v := value.(type) {
			case *schemas.ScoredBatch:
				return v, false, nil
			case *schemas.Seal:
				if v.Final {
					return nil, true, nil
				}
				continue
			case nil:
				err = stream.Poison(err)
			default:
				err = stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
			}
		}
		if !errors.Is(err, stream.ErrPoison) {
			return nil, false, fmt.Errorf("reading lane %d: %w", lane, err)
		}
		if err := r.publisher.DeadLetter(ctx, Name, rec, err.Error()); err != nil {
			return nil, false, fmt.Errorf("setting a record of lane %d aside: %w", lane, err)
		}
	}
}

// loadPause is the wait between two tries to load a batch's images.
const loadPause = 2 * time.Second

// load makes the inputs of a batch. The encoder has read every image before, so one that cannot be had now is a fault of
// the bucket: it is tried again until the bucket is back.
func (r *rotation) load(ctx context.Context, b *schemas.ScoredBatch) (trainer.Input, error) {
	for {
		in := trainer.Input{IDs: r.loader.IDs(&b.Batch)}
		var err error
		in.Pixels, err = r.loader.Images(ctx, &b.Batch)
		if err == nil && r.positives {
			in.Positives, err = r.loader.Positives(ctx, &b.Batch)
		}
		if err == nil {
			return in, nil
		}
		r.logger.Warn("loading images again", "stage", "trainer", "group_id", b.Group.String(), "err", err)
		select {
		case <-time.After(loadPause):
		case <-ctx.Done():
			return in, ctx.Err()
		}
	}
}
