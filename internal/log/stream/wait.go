package stream

import (
	"context"
	"errors"
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// askEvery is the time between two attempts of a stage at a record that it could not take yet.
const askEvery = 100 * time.Millisecond

// process hands a record to the stage. It reads the clock once: the time since the record before counts as work.
func (ln *lane) process(work context.Context, rec Record) error {
	err := ln.stage.Process(ln.out.begin(work), rec, ln.out)
	began := ln.now
	ln.now = time.Now()
	ln.instruments.worked(ln.now.Sub(began))
	return err
}

// ask hands the stage a record repeatedly, after it could not take the record because of why. It reports at once what
// the lane waits for. It returns an [ErrNotYet] only when reading has ended.
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

// wait waits for a record, and commits meanwhile. After a while it reports the record that it waits for.
func (ln *lane) wait(reading context.Context, r *Reader) (rec Record, err error) {
	long, checked := time.Now().Add(ln.log.saidAfter), false
	ln.starved, ln.ended = false, false
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

// lookAround checks why a lane has waited for long. The first check also looks for a recreated topic and for a final
// seal.
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

// wants describes the record that the lane waits for. If another input has records, another process is late.
func (ln *lane) wants(r *Reader) (what string, held bool) {
	if ln.ended {
		return "", false // no more input comes, and the lane cannot use the rest of its other inputs
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
