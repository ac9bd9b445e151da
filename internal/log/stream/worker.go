package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
	"github.com/pairstream/pairstream/schemas"
)

// worker owns one lane in this process, over any number of generations of the group, until the lane goes to another
// owner. Each generation gives it a turn.
type worker struct {
	run   *run
	id    int
	work  context.Context //nolint:containedctx // ends when the lane has another owner
	kill  context.CancelFunc
	turns chan turn // the latest turn, until it is begun
	last  turn      // the latest turn, begun or not
	lane  *lane     // as the previous turn left it; nil: it has to be made from its last mark
}

// turn is the time for which a generation lets a worker read.
type turn struct {
	reading context.Context //nolint:containedctx // ends with the generation
	offsets *kafka.Commits
	budget  int64
	over    chan struct{} // closed when nothing is in hand
}

func (r *run) newWorker(id int) *worker {
	w := &worker{run: r, id: id, turns: make(chan turn, 1), last: turn{over: make(chan struct{})}}
	close(w.last.over)
	w.work, w.kill = context.WithCancel(context.WithoutCancel(r.ctx))
	r.ended.Go(w.loop)
	return w
}

// give lets the worker read. The worker may still be finishing the previous turn, and then continues with this one.
// Only the goroutine of run.generations calls give.
func (w *worker) give(t turn) {
	select {
	case missed := <-w.turns:
		close(missed.over)
	default:
	}
	w.last = t
	w.turns <- t
}

func (w *worker) loop() {
	defer func() {
		if w.lane != nil {
			w.lane.close()
		}
	}()
	for {
		select {
		case <-w.work.Done():
			return
		case t := <-w.turns:
			w.turn(t)
			close(t.over)
		}
	}
}

// turn runs the lane until the turn is over. It restarts the lane after a fault that may pass, and parks it after any
// other.
func (w *worker) turn(t turn) {
	r := w.run
	var pause kafka.Backoff
	for t.reading.Err() == nil {
		begun := time.Now()
		err := w.once(t)
		switch {
		case err == nil:
			return
		case w.work.Err() != nil:
			r.watchdog.Lane(w.id).rest()
			r.log.logger.Warn("giving up a lane with work in hand", keyStage, r.spec.Name, keyLane, w.id, keyErr, err)
			return
		case errors.Is(err, errMaking):
			r.fail(fmt.Errorf("lane %d: %w", w.id, err))
			return
		}
		if !r.tryAgain(t.reading, w.id, begun, &pause, err) {
			return
		}
	}
}

// once runs the lane until the turn is over, or it fails. After a turn nothing is in hand, and the next turn may
// continue.
func (w *worker) once(t turn) error {
	if err := w.takeUp(t); err != nil {
		if t.reading.Err() != nil {
			return nil
		}
		return err
	}
	w.lane.commit = func(at map[schemas.Topic]int64) {
		for topic, o := range at {
			t.offsets.Reached(topic, w.id, o)
		}
	}
	err := w.lane.run(t.reading, w.work)
	if err != nil {
		w.lane.close()
		w.lane = nil
	}
	return err
}

// takeUp makes the lane from its last mark, unless the previous turn left it usable.
func (w *worker) takeUp(t turn) error {
	if w.lane != nil {
		current, err := w.lane.current(t.reading)
		if err == nil && current {
			w.lane.setBudget(t.budget)
			return nil
		}
		w.lane.close()
		w.lane = nil
		if err != nil {
			return err
		}
	}
	ln := newLane(w.run.roster, w.run.spec, w.id)
	if err := ln.open(t.reading, t.budget); err != nil {
		ln.close()
		return err
	}
	w.lane = ln
	return nil
}
