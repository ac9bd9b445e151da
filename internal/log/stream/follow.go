package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/log/kafka"

	"github.com/pairstream/pairstream/schemas"
)

// FollowSpec configures a [Follower].
type FollowSpec struct {
	Name     string           // of the stage, and of the consumer group that its offsets are committed to
	Topic    schemas.Topic    // with lanes and seqs
	Writes   []schemas.Topic  // outputs of the stage
	From     map[int]Position // by lane; ended lanes are missing
	Letters  *Publisher       // takes the records set aside
	Counters *Counters        // kept up to date when set
	// Take takes the next record of a lane, and may block. Its errors are those of a [Stage]; io.EOF ends the lane.
	Take func(ctx context.Context, lane *FollowedLane, rec Record) error
	// Waiting describes the record that an empty lane waits for, and reports whether the lane holds up others.
	Waiting     func(lane int) (what string, holdsUp bool)
	ParkedPause time.Duration // rest of a parked lane; 0: a minute
	SaidAfter   time.Duration // a lane that waits for longer reports it; 0: a minute
}

// Follower reads lanes for the trainer, whose work goes across lanes, so that one process has all of them. It needs no
// consumer group, and its caller knows where to resume. It treats faults as [Log.Run] does.
type Follower struct {
	*roster
	spec FollowSpec
}

// followBytes is the number of bytes that a follower reads ahead in each lane.
const followBytes = 8 << 20

// Follow makes a follower.
func (l *Log) Follow(spec FollowSpec) *Follower {
	f := &Follower{roster: l.newRoster(spec.Name, append([]schemas.Topic{spec.Topic}, spec.Writes...), spec.Counters, func(error) {}), spec: spec}
	f.saying.Store(kafka.NewCommits(nil))
	if spec.ParkedPause > 0 {
		f.parkedPause = spec.ParkedPause
	}
	if spec.SaidAfter > 0 {
		f.saidAfter = spec.SaidAfter
	}
	return f
}

// Pulse returns the watchdog's pulse of a lane.
func (f *Follower) Pulse(lane int) *Pulse { return f.watchdog.Lane(lane) }

// Reached records the stage's position in a lane, for lag dashboards.
func (f *Follower) Reached(lane int, offset int64) {
	f.saying.Load().Reached(f.spec.Topic, lane, offset)
}

// Watch reports the lanes' progress, states and stalls until ctx ends, and once more then.
func (f *Follower) Watch(ctx context.Context) {
	var watching errgroup.Group
	defer watching.Wait() //nolint:errcheck // there is none
	watching.Go(func() error { f.watchdog.Run(ctx); return nil })
	watching.Go(func() error { f.watchTopics(ctx); return nil })
	tick := time.NewTicker(commitEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			if err := f.commit(ctx); err != nil {
				f.log.logger.Debug("committing offsets", keyStage, f.stage, keyErr, err)
			}
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.log.cfg.PerRequest())
	defer cancel()
	if err := f.log.Retry(last, "committing the last offsets of "+f.stage, f.commit); err != nil {
		f.log.logger.Warn("the lag will look larger than it is", keyStage, f.stage, keyErr, err)
	}
}

// Run reads until every lane has ended, or ctx ends.
func (f *Follower) Run(ctx context.Context) error {
	f.lookForAnew(ctx)
	reading, ctx := errgroup.WithContext(ctx)
	for id, from := range f.spec.From {
		reading.Go(func() error { return f.follow(ctx, &FollowedLane{id, spell{roster: f.roster, lane: id}}, from) })
	}
	return reading.Wait()
}

// FollowedLane is a lane as Take gets it.
type FollowedLane struct {
	ID    int
	spell spell
}

// Wait calls try until it succeeds, each time for a second at most. After a while the lane reports that it waits for
// the text that what returns, unless the text is empty.
func (l *FollowedLane) Wait(ctx context.Context, try func(context.Context) error, what func() (string, bool)) error {
	return l.spell.wait(ctx, try, func() error { return nil }, what)
}

// errLetters marks a fault of the publisher that takes dead letters. All lanes share it.
var errLetters = errors.New("setting a record aside")

// follow reads a lane to its end, and restarts it after faults.
func (f *Follower) follow(ctx context.Context, l *FollowedLane, at Position) error {
	var pause kafka.Backoff
	for {
		begun := time.Now()
		err := f.read(ctx, l, &at)
		switch {
		case errors.Is(err, io.EOF):
			f.unpark(l.ID)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case f.madeAnew(nil) != nil: // only a restart of the process can compare its state with the log
			return fmt.Errorf("lane %d: %w", l.ID, f.madeAnew(nil))
		case errors.Is(err, errLetters):
			return fmt.Errorf("lane %d: %w", l.ID, err)
		case !isTransient(err):
			f.note(ctx, f.spec.Topic, l.ID, at)
		}
		if !f.tryAgain(ctx, l.ID, begun, &pause, err) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("lane %d: %w", l.ID, err)
		}
	}
}

// read reads a lane from a position until it fails or ends, and updates the position.
func (f *Follower) read(ctx context.Context, l *FollowedLane, at *Position) error {
	skips, err := f.log.skipsOf(ctx, f.spec.Topic, l.ID)
	if err != nil {
		return err
	}
	r := f.log.newReader(f.spec.Topic, l.ID, *at, followBytes, f.instruments, skips)
	defer r.Close()
	works := func() error {
		if err := f.madeAnew(nil); err != nil {
			return err
		}
		f.unpark(l.ID)
		return nil
	}
	for {
		var rec Record
		err := l.spell.wait(ctx, func(tick context.Context) (err error) {
			rec, err = r.Next(tick)
			return err
		}, works, func() (string, bool) { return f.spec.Waiting(l.ID) })
		*at = r.Position()
		if err == nil {
			if err = f.spec.Take(ctx, l, rec); err != nil {
				*at = rec.Position()
			}
		}
		switch {
		case err == nil:
			f.unpark(l.ID)
		case newer(&rec, err):
			return NewerVersion(&rec, err)
		case errors.Is(err, ErrPoison):
			*at = r.Position()
			if err := f.spec.Letters.DeadLetter(ctx, f.spec.Name, rec, reason(err)); err != nil {
				return fmt.Errorf("%w: %w", errLetters, err)
			}
		default:
			return err
		}
	}
}

// Whole repeats read, which reads records of a lane from a position on, until it meets no damage. Meanwhile the lane is
// parked and reported.
func (f *Follower) Whole(ctx context.Context, topic schemas.Topic, lane int, from Position, read func() error) error {
	err := read()
	if !isDamage(err) {
		return err
	}
	f.note(ctx, topic, lane, from)
	var telling errgroup.Group
	watching, stop := context.WithCancel(ctx)
	telling.Go(func() error { f.Watch(watching); return nil })
	for isDamage(err) {
		if !f.park(ctx, lane, err) {
			err = ctx.Err()
			break
		}
		err = read()
	}
	if err == nil {
		f.unpark(lane)
	}
	stop()
	return errors.Join(err, telling.Wait())
}

// commit commits new offsets to the consumer group, for lag dashboards only.
func (f *Follower) commit(ctx context.Context) error {
	return f.log.Commit(ctx, f.stage, f.saying.Load())
}

func stoppedKey(stage string, topic schemas.Topic, lane int) string {
	return fmt.Sprintf("stopped/%s/%s/%d", stage, topic, lane)
}

// note notes where a lane has stopped, for people who look for its fault: they cannot see the stage's memory.
func (f *Follower) note(ctx context.Context, topic schemas.Topic, lane int, at Position) {
	ctx, cancel := context.WithTimeout(ctx, f.log.cfg.PerRequest())
	defer cancel()
	if err := f.log.remember(ctx, stoppedKey(f.stage, topic, lane), at); err != nil {
		f.log.logger.Warn("noting where a lane has stopped", keyStage, f.stage, keyLane, lane, keyErr, err)
	}
}

// Stopped returns where a follower has last parked a lane, if ever.
func (l *Log) Stopped(ctx context.Context, stage string, topic schemas.Topic, lane int) (at Position, found bool, err error) {
	key := stoppedKey(stage, topic, lane)
	err = l.recall(ctx, key, func(k string, value []byte) error {
		if k != key { // lane 1 is a prefix of lane 10
			return nil
		}
		found = true
		return json.Unmarshal(value, &at)
	})
	return at, found, err
}
