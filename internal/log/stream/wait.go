package stream

import (
	"context"
	"errors"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// askEvery is the time after which a stage gets a record again that it could not take yet.
const askEvery = 100 * time.Millisecond

// process hands a record to the stage. It reads the clock once: the time since the record before counts as work.
func (ln *lane) process(work context.Context, rec Record) error {
	err := ln.stage.Process(ln.out.begin(work), rec, ln.out)
	began := ln.now
	ln.now = time.Now()
	ln.instruments.worked(ln.now.Sub(began))
	return err
}

// ask hands a record to the stage again and again, which it could not take because of why. It says at once what the
// lane waits for. It returns an [ErrNotYet] only when reading has ended.
func (ln *lane) ask(reading, work context.Context, rec Record, why error) error {
	ln.pulse.rest()
	ln.spell.say(why.Error(), true)
	var err error
	waited := ln.spell.wait(reading, func(tick context.Context) error {
		select {
		case <-tick.Done():
			return tick.Err()
		case <-time.After(askEvery):
		}
		ln.now = time.Now()
		if err = ln.process(work, rec); errors.Is(err, ErrNotYet) {
			why = err
			return context.DeadlineExceeded
		}
		return nil
	}, ln.maybeCommit, func() (string, bool) { return why.Error(), true })
	switch {
	case waited == nil:
		return err
	case reading.Err() != nil:
		return why
	}
	return waited
}

// wait waits for a record, and commits meanwhile. After a while it says what it waits for.
func (ln *lane) wait(reading context.Context, r *Reader) (rec Record, err error) {
	long, checked := time.Now().Add(ln.log.saidAfter), false
	ln.nobody, ln.ended = false, false
	err = ln.spell.wait(reading, func(tick context.Context) error {
		rec, err = r.Next(tick)
		return err
	}, func() error {
		if time.Now().After(long) {
			long = time.Now().Add(ln.log.saidAfter)
			if err := ln.lookAround(reading, r, !checked); err != nil {
				return err
			}
			checked = true
		}
		return ln.maybeCommit()
	}, func() (string, bool) { return ln.wants(r) })
	return rec, err
}

// lookAround looks why a lane has waited for long. At first it asks whether the topic was made anew, and the record
// lies before.
func (ln *lane) lookAround(ctx context.Context, r *Reader, first bool) error {
	if first {
		if err := ln.log.checkSeqs(ctx, r.f.Topic(), ln.id, r.pos, r.skips); err != nil {
			return err
		}
		last, found, err := ln.log.LastWhere(ctx, r.f.Topic(), ln.id, func(*Record) bool { return true })
		if err != nil {
			return err
		}
		seal, sealed := As[*schemas.Seal](last)
		ln.ended = found && sealed && seal.Final && r.f.Topic() == ln.spec.Inputs[0] && last.Offset < r.pos.Offset
	}
	return ln.forgo(ctx, r)
}

// wants says what the lane waits for. When another input has records, someone else does not do their part.
func (ln *lane) wants(r *Reader) (what string, held bool) {
	if ln.ended {
		return "", false // nothing comes, and what other inputs have left is of no use to the lane
	}
	what = string(r.f.Topic())
	if w, ok := ln.stage.(Waiter); ok {
		what = w.Waiting()
	}
	for _, other := range ln.readers {
		held = held || other != r && other.f.High() > other.pos.Offset
	}
	return what, held
}
