package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// ErrDamaged marks a fault that lies in one lane and stays. The lane is parked, and the others go on.
var ErrDamaged = errors.New("lane is damaged")

// Damaged wraps err so that its lane is parked.
func Damaged(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

// parkedPause is the rest of a parked lane before it is tried again. Someone may have put right what was wrong.
const parkedPause = time.Minute

// isDamage reports whether an error comes from what is in the log, or from what the brokers refuse. Another process
// would meet it as well.
func isDamage(err error) bool {
	var refused kafka.Error
	for _, sentinel := range []error{ErrDamaged, ErrGap, ErrTooLarge, errBatch} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return errors.As(err, &refused)
}

// newer reports whether a record that cannot be read may be one of a newer version. Only stages write its topic, and
// it has a place in their sequence. Dropping it would lose it for good.
func newer(rec *Record, err error) bool {
	return errors.Is(err, schemas.ErrUnknownSchema) && Sequenced(rec.Topic) && strings.HasPrefix(rec.Schema, "pairstream.")
}

// park takes a lane with a lasting fault out of service. It reports whether to try again: after a pause, for as long
// as the turn goes on. When every lane of the process has failed, and one of them not by damage, the process is at
// fault. park then ends the run.
func (r *run) park(reading context.Context, lane int, err error) bool {
	r.mu.Lock()
	first := r.parked[lane] == nil
	r.parked[lane] = err
	all, damaged := len(r.parked) >= int(r.instruments.c.Lanes.Load()), true
	for _, e := range r.parked {
		damaged = damaged && isDamage(e)
	}
	r.instruments.m.parked.WithLabelValues(r.spec.Name).Set(float64(len(r.parked)))
	r.mu.Unlock()
	r.watchdog.Lane(lane).rest()
	if all && !damaged {
		r.fail(fmt.Errorf("lane %d: %w", lane, err))
		return false
	}
	if first {
		r.log.logger.Error("parking a lane: it is out of service until this is put right; `pairstream lanes` shows it",
			keyStage, r.spec.Name, keyLane, lane, keyErr, err)
	}
	r.say(lane, "parked: "+err.Error())
	t := time.NewTimer(r.log.parkedPause)
	defer t.Stop()
	select {
	case <-reading.Done():
		return false
	case <-t.C:
		return true
	}
}

// saidAfter is the time that a lane waits before it says what it waits for.
const saidAfter = time.Minute

// Waiter is a stage that knows more of what it waits for than the topic.
type Waiter interface {
	// Waiting says what the stage wants next, "features of epoch 0, batch 26 of 156". The goroutine of Process calls
	// it.
	Waiting() string
}

// sayWaiting says what the lane waits for: in its state, and in the log when it is new. When another input has
// records, someone else does not do their part, and the lane counts as waiting.
func (ln *lane) sayWaiting(r *Reader) {
	what := string(r.f.topic)
	if w, ok := ln.stage.(Waiter); ok {
		what = w.Waiting()
	}
	if ln.waits == what {
		return
	}
	if ln.waits == "" && ln.othersHave(r) {
		ln.instruments.m.waiting.WithLabelValues(ln.spec.Name).Inc()
		ln.blocked = true
	}
	ln.waits = what
	level := slog.LevelInfo
	if ln.blocked {
		level = slog.LevelWarn
	}
	ln.log.logger.Log(context.Background(), level, "a lane waits", keyStage, ln.spec.Name, keyLane, ln.id, keyWhat, what)
	ln.say("waits for " + what)
}

func (ln *lane) othersHave(r *Reader) bool {
	for _, other := range ln.readers {
		if other != r && other.f.high.Load() > other.pos.Offset {
			return true
		}
	}
	return false
}

// waited takes back what sayWaiting has said.
func (ln *lane) waited() {
	if ln.waits == "" {
		return
	}
	if ln.blocked {
		ln.instruments.m.waiting.WithLabelValues(ln.spec.Name).Dec()
	}
	ln.waits, ln.blocked = "", false
	ln.say("")
}

// forget drops what is known of a lane that is not ours any more.
func (r *run) forget(lane int) (wasParked bool) {
	r.instruments.c.say(lane, "")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.parked[lane] == nil {
		return false
	}
	delete(r.parked, lane)
	r.instruments.m.parked.WithLabelValues(r.spec.Name).Set(float64(len(r.parked)))
	return true
}

// unpark puts a lane back into service that has shown that it works.
func (r *run) unpark(lane int) {
	r.mu.Lock()
	parked := r.parked[lane] != nil
	r.mu.Unlock()
	if !parked || !r.forget(lane) {
		return
	}
	r.say(lane, "")
	r.log.logger.Info("a parked lane is in service again", keyStage, r.spec.Name, keyLane, lane)
}

// say notes the state of a lane where status and readiness find it. An empty state means that the lane is at work.
func (r *run) say(lane int, state string) {
	r.instruments.c.say(lane, state)
	w := r.saying.Load()
	if w != nil {
		w.say(r.log.name(r.spec.Inputs[0]), lane, state)
	}
}
