package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"

	"github.com/pairstream/pairstream/schemas"
)

// ErrDamaged marks a lasting fault of one lane. The lane is parked, and the others continue.
var ErrDamaged = errors.New("lane is damaged")

// Damaged wraps err so that its lane is parked.
func Damaged(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

// parkedPause is the rest of a parked lane before it is tried again. Someone may have repaired the fault.
const parkedPause = time.Minute

// isDamage reports whether an error comes from the records in the log, or from a refusal by the brokers. Another
// process would meet it as well as this one.
func isDamage(err error) bool {
	for _, sentinel := range []error{ErrDamaged, ErrGap, kafka.ErrTooLarge, kafka.ErrBatch} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return kafka.Refuses(err)
}

// isTransient reports whether a stage's error is a fault that may pass.
func isTransient(err error) bool {
	return !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrGap) && !errors.Is(err, kafka.ErrTooLarge) && kafka.IsTransient(err)
}

// newer reports whether an unreadable record may be of a newer version. Only stages write its topic, and it has a
// position in their sequence. Dropping it would lose it for good.
func newer(rec *Record, err error) bool {
	return errors.Is(err, schemas.ErrUnknownSchema) && Sequenced(rec.Topic) && strings.HasPrefix(rec.Schema, "pairstream.")
}

// NewerVersion turns the error of a record that may need a newer program into the fault that parks its lane. It returns
// any other error unchanged.
func NewerVersion(rec *Record, err error) error {
	if !newer(rec, err) {
		return err
	}
	return Damaged(fmt.Errorf("%s, lane %d, offset %d, seq %d is of a newer version: it waits for a newer program: %w", rec.Topic, rec.Lane, rec.Offset, rec.Seq, err))
}

// roster tracks the lanes of a stage that are parked or waiting. It reports them in the log, in metrics, in the
// metadata of committed offsets, and at the readiness endpoint.
type roster struct {
	log         *Log
	stage       string
	input       schemas.Topic                 // its committed offsets carry the states of lanes
	topics      []schemas.Topic               // read and written by the stage
	anew        atomic.Pointer[schemas.Topic] // the latest topic that was recreated
	ids         sync.Map                      // of the topics, at the last check
	instruments *instruments
	watchdog    *Watchdog
	saying      atomic.Pointer[kafka.Commits] // of the latest generation
	fail        func(error)                   // ends the process's part in the stage
	parkedPause time.Duration
	saidAfter   time.Duration

	parking sync.Mutex
	parked  map[int]error // lanes that are out of service, and why
}

// newRoster makes the roster of a stage. The first of its topics is its input.
func (l *Log) newRoster(stage string, topics []schemas.Topic, c *Counters, fail func(error)) *roster {
	l.metrics.parked.WithLabelValues(stage).Set(0)
	l.metrics.waiting.WithLabelValues(stage).Set(0)
	return &roster{
		log: l, stage: stage, input: topics[0], topics: topics, instruments: newInstruments(l.metrics, stage, c), watchdog: l.newWatchdog(stage), fail: fail,
		parkedPause: l.parkedPause, saidAfter: l.saidAfter, parked: make(map[int]error),
	}
}

// tryAgain decides about a failed lane. It retries a fault that may pass after a pause; any other fault parks the lane.
// tryAgain returns false when the turn ends meanwhile.
func (r *roster) tryAgain(reading context.Context, lane int, begun time.Time, pause *kafka.Backoff, err error) bool {
	if !isTransient(err) {
		return r.park(reading, lane, err)
	}
	r.watchdog.Lane(lane).retry()
	r.log.metrics.restarts.WithLabelValues(r.stage).Inc()
	r.log.logger.Warn("taking a lane up again", keyStage, r.stage, keyLane, lane, keyErr, err)
	if time.Since(begun) > time.Minute { // a new fault, not the one before
		pause.Reset()
	}
	return pause.Wait(reading) == nil
}

// park takes a lane with a lasting fault out of service. It reports whether to try again: after a pause, as long as the
// turn lasts. If every lane of the process has failed, and at least one of them not by damage, the process is at fault,
// and park ends the run.
func (r *roster) park(reading context.Context, lane int, err error) bool {
	r.parking.Lock()
	first := r.parked[lane] == nil
	r.parked[lane] = err
	all, damaged := len(r.parked) >= int(r.instruments.c.Lanes.Load()), true
	for _, e := range r.parked {
		damaged = damaged && isDamage(e)
	}
	r.instruments.m.parked.WithLabelValues(r.stage).Set(float64(len(r.parked)))
	r.parking.Unlock()
	r.watchdog.Lane(lane).rest()
	if all && !damaged {
		r.fail(fmt.Errorf("lane %d: %w", lane, err))
		return false
	}
	if first {
		r.log.logger.Error("parking a lane: it is out of service until this is repaired; `pairstream lanes` shows it",
			keyStage, r.stage, keyLane, lane, keyErr, err)
	}
	r.say(lane, "parked: "+err.Error())
	t := time.NewTimer(r.parkedPause)
	defer t.Stop()
	select {
	case <-reading.Done():
		return false
	case <-t.C:
		return true
	}
}

// saidAfter is the time after which a waiting lane reports the awaited record.
const saidAfter = time.Minute

// Waiter is a stage that can describe the record that it waits for.
type Waiter interface {
	// Waiting describes the next record that the stage needs, for example "features of epoch 0, batch 26 of 156". The
	// goroutine of Process calls it.
	Waiting() string
}

// spell is one lane's state of waiting. One goroutine uses it.
type spell struct {
	roster *roster
	lane   int
	what   string // last report; empty: none
	held   bool   // the lane counts as waiting
}

// wait calls try until the awaited record is there, and meanwhile every second. After a while it reports the text from
// what, which also returns whether the lane holds up others. An empty text reports nothing.
func (s *spell) wait(ctx context.Context, try func(context.Context) error, meanwhile func() error, what func() (string, bool)) error {
	since := time.Now()
	defer s.say("", false)
	for {
		tick, cancel := context.WithTimeout(ctx, min(commitEvery, s.roster.saidAfter))
		err := try(tick)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if err := meanwhile(); err != nil {
			return err
		}
		if time.Since(since) >= s.roster.saidAfter {
			s.say(what())
		}
	}
}

// say reports what the lane waits for: in its state, and in the log when it is new. A lane that holds up others counts
// as waiting. An empty text withdraws the last report.
func (s *spell) say(what string, held bool) {
	r := s.roster
	if s.held != held {
		r.instruments.m.waiting.WithLabelValues(r.stage).Add(map[bool]float64{true: 1, false: -1}[held])
		s.held = held
	}
	if s.what == what {
		return
	}
	s.what = what
	if what == "" {
		r.say(s.lane, "")
		return
	}
	level := slog.LevelInfo
	if held { // another process is late
		level = slog.LevelWarn
	}
	r.unpark(s.lane) // a waiting lane is in service; its next report must stay
	r.log.logger.Log(context.Background(), level, "a lane waits", keyStage, r.stage, keyLane, s.lane, keyWhat, what)
	r.say(s.lane, "waits for "+what)
}

// forget drops the state of a lane that has another owner.
func (r *roster) forget(lane int) (wasParked bool) {
	r.instruments.c.say(lane, "")
	r.parking.Lock()
	defer r.parking.Unlock()
	if r.parked[lane] == nil {
		return false
	}
	delete(r.parked, lane)
	r.instruments.m.parked.WithLabelValues(r.stage).Set(float64(len(r.parked)))
	return true
}

// unpark puts a lane back into service once it has shown that it works.
func (r *roster) unpark(lane int) {
	r.parking.Lock()
	parked := r.parked[lane] != nil
	r.parking.Unlock()
	if !parked || !r.forget(lane) {
		return
	}
	r.say(lane, "")
	r.log.logger.Info("a parked lane is in service again", keyStage, r.stage, keyLane, lane)
}

// say sets the state of a lane for status and readiness. An empty state means that the lane is at work.
func (r *roster) say(lane int, state string) {
	r.instruments.c.say(lane, state)
	w := r.saying.Load()
	if w != nil {
		w.Say(r.input, lane, state)
	}
}
