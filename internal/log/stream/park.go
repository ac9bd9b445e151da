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

// ErrDamaged marks a fault that lies in one lane and stays. The lane is parked, and the others go on.
var ErrDamaged = errors.New("lane is damaged")

// Damaged wraps err so that its lane is parked.
func Damaged(err error) error { return fmt.Errorf("%w: %w", ErrDamaged, err) }

// parkedPause is the rest of a parked lane before it is tried again. Someone may have put right what was wrong.
const parkedPause = time.Minute

// isDamage reports whether an error comes from what is in the log, or from what the brokers refuse. Another process
// would meet it as well.
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

// newer reports whether a record that cannot be read may be one of a newer version. Only stages write its topic, and
// it has a place in their sequence. Dropping it would lose it for good.
func newer(rec *Record, err error) bool {
	return errors.Is(err, schemas.ErrUnknownSchema) && Sequenced(rec.Topic) && strings.HasPrefix(rec.Schema, "pairstream.")
}

// NewerVersion turns the error of a record that may be for a newer program into the fault that parks its lane. It
// returns any other error as it is.
func NewerVersion(rec *Record, err error) error {
	if !newer(rec, err) {
		return err
	}
	return Damaged(fmt.Errorf("%s, lane %d, offset %d, seq %d is of a newer version: it waits for a newer program: %w", rec.Topic, rec.Lane, rec.Offset, rec.Seq, err))
}

// roster knows which lanes of a stage are parked or wait. It says so in the log, in metrics, in the metadata of
// committed offsets, and to whoever asks the process.
type roster struct {
	log         *Log
	stage       string
	input       schemas.Topic                 // whose offsets carry what lanes have to say
	topics      []schemas.Topic               // that the stage reads and writes
	anew        atomic.Pointer[schemas.Topic] // the latest of them that was made anew
	ids         sync.Map                      // of the topics, at the last look
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

// tryAgain decides about a lane that has failed. A fault that may pass is tried again after a pause, any other parks
// the lane. tryAgain reports false when the turn is over meanwhile.
func (r *roster) tryAgain(reading context.Context, lane int, begun time.Time, pause *kafka.Backoff, err error) bool {
	if !isTransient(err) {
		return r.park(reading, lane, err)
	}
	r.watchdog.Lane(lane).retry()
	r.log.metrics.restarts.WithLabelValues(r.stage).Inc()
	r.log.logger.Warn("taking a lane up again", keyStage, r.stage, keyLane, lane, keyErr, err)
	if time.Since(begun) > time.Minute { // this is another fault than the one before
		pause.Reset()
	}
	return pause.Wait(reading) == nil
}

// park takes a lane with a lasting fault out of service. It reports whether to try again: after a pause, for as long
// as the turn goes on. When every lane of the process has failed, and one of them not by damage, the process is at
// fault. park then ends the run.
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
		r.log.logger.Error("parking a lane: it is out of service until this is put right; `pairstream lanes` shows it",
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

// saidAfter is the time that a lane waits before it says what it waits for.
const saidAfter = time.Minute

// Waiter is a stage that knows more of what it waits for than the topic.
type Waiter interface {
	// Waiting says what the stage wants next, "features of epoch 0, batch 26 of 156". The goroutine of Process calls
	// it.
	Waiting() string
}

// spell is the time for which a lane waits. One goroutine uses it.
type spell struct {
	roster *roster
	lane   int
	what   string // was said; empty: nothing
	held   bool   // the lane counts as waiting
}

// wait calls try until there is what the lane waits for, and meanwhile every second. After a while it says what the
// lane waits for. what returns that, and whether the lane holds up others. Empty means that there is nothing to say.
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

// say says what the lane waits for: in its state, and in the log when it is new. A lane that holds up others counts as
// waiting. Empty takes back what was said.
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
	if held { // someone else does not do their part
		level = slog.LevelWarn
	}
	r.unpark(s.lane) // a lane that waits is in service; what it says next must stay
	r.log.logger.Log(context.Background(), level, "a lane waits", keyStage, r.stage, keyLane, s.lane, keyWhat, what)
	r.say(s.lane, "waits for "+what)
}

// forget drops what is known of a lane that is not ours any more.
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

// unpark puts a lane back into service that has shown that it works.
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

// say notes the state of a lane where status and readiness find it. An empty state means that the lane is at work.
func (r *roster) say(lane int, state string) {
	r.instruments.c.say(lane, state)
	w := r.saying.Load()
	if w != nil {
		w.Say(r.input, lane, state)
	}
}
