package service

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

// arrived is the next thing that a lane has to give: a batch, or its end.
type arrived struct {
	batch *schemas.ScoredBatch // nil: the lane has ended
	rec   stream.Record
	after stream.Position // the place after it
}

// intake reads every lane independently, a batch or two ahead of the training.
type intake struct {
	publisher *stream.Publisher
	queues    []chan arrived
	heads     []*arrived    // taken from the queues, by index of the lane
	news      chan struct{} // signals that something was queued
}

// startIntake reads the lanes that have not ended. It stops when they have ended, or when ctx ends.
func startIntake(ctx context.Context, reading *errgroup.Group, log *stream.Log, publisher *stream.Publisher, at positions, o stream.ReaderOptions) *intake {
	in := &intake{
		publisher: publisher, queues: make([]chan arrived, len(at.Lanes)), heads: make([]*arrived, len(at.Lanes)), news: make(chan struct{}, 1),
	}
	for i, l := range at.Lanes {
		in.queues[i] = make(chan arrived, 1)
		if l.Ended {
			continue
		}
		reading.Go(func() error {
			r := log.OpenReader(schemas.Scored, l.Lane, l.Scored, o)
			defer r.Close()
			return in.follow(ctx, r, l.Lane, in.queues[i])
		})
	}
	return in
}

// follow queues what a lane has, up to its end.
func (in *intake) follow(ctx context.Context, r *stream.Reader, lane int, queue chan<- arrived) error {
	for {
		batch, rec, err := in.read(ctx, r, lane)
		if err != nil {
			return err
		}
		select {
		case queue <- arrived{batch, rec, r.Position()}:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case in.news <- struct{}{}:
		default: // a signal is waiting already
		}
		if batch == nil {
			return nil
		}
	}
}

// read returns the next batch of a lane, or nil at its end. It sets aside whatever is neither batch nor seal.
func (in *intake) read(ctx context.Context, r *stream.Reader, lane int) (*schemas.ScoredBatch, stream.Record, error) {
	for {
		rec, err := r.Next(ctx)
		if err == nil {
			var value schemas.Record
			value, err = schemas.Unmarshal(rec.Schema, rec.Value)
			switch v := value.(type) {
			case *schemas.ScoredBatch:
				return v, rec, nil
			case *schemas.Seal:
				if v.Final {
					return nil, rec, nil
				}
				continue
			case nil:
				err = stream.Poison(err)
			default:
				err = stream.Poison(errors.New("foreign record: " + rec.Schema + " does not belong on this topic"))
			}
		}
		if !errors.Is(err, stream.ErrPoison) {
			return nil, rec, fmt.Errorf("reading lane %d: %w", lane, err)
		}
		if err := in.publisher.DeadLetter(ctx, Name, rec, err.Error()); err != nil {
			return nil, rec, fmt.Errorf("setting a record of lane %d aside: %w", lane, err)
		}
	}
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
