package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/pairstream/pairstream/schemas"
)

// Run runs a stage on the lanes that its consumer group gives to this process, until ctx ends or a lane fails for good.
// Before a lane is given up, and when ctx ends, work in hand is finished, for at most Config.DrainTimeout.
func (l *Log) Run(ctx context.Context, spec StageSpec) error {
	if err := spec.validate(); err != nil {
		return err
	}
	if err := l.CheckTopics(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("stage %s: %w", spec.Name, err)
	}
	share := new(balancer)
	group, dialer, err := l.joinGroup(spec, share)
	if err != nil {
		return fmt.Errorf("stage %s: %w", spec.Name, err)
	}
	r := &run{log: l, spec: spec, share: share, meter: newMeter(l.metrics, spec.Name, spec.Counters), parked: make(map[int]*lane)}
	r.ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	err = errors.Join(r.generations(group), r.leave(group, dialer))
	r.forget(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err = errors.Join(r.failed, err); err != nil {
		return fmt.Errorf("stage %s: %w", spec.Name, err)
	}
	return nil
}

// leave waits until the lanes are given up, and leaves the group.
func (r *run) leave(group *kafka.ConsumerGroup, dialer *groupDialer) error {
	r.stop()
	left := make(chan error, 1)
	go func() { left <- group.Close() }()
	r.lanes.Wait()
	t := time.NewTimer(lastWords)
	defer t.Stop()
	select {
	case err := <-left:
		return err
	case <-t.C:
		dialer.hangUp()
		return <-left
	}
}

// run is one call of Run.
type run struct {
	log   *Log
	spec  StageSpec
	share *balancer
	meter *meter
	ctx   context.Context //nolint:containedctx // ends when Run is to return
	stop  context.CancelFunc
	lanes sync.WaitGroup // those that are run

	mu     sync.Mutex
	failed error         // what the first lane failed with
	parked map[int]*lane // lanes between two generations, with nothing in hand
}

// park keeps a lane for the next generation.
func (r *run) park(ln *lane) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.parked[ln.id] = ln
}

// unpark returns the lane if it was kept.
func (r *run) unpark(id int) *lane {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := r.parked[id]
	delete(r.parked, id)
	return ln
}

// forget closes all lanes that are kept, but for some.
func (r *run) forget(but []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, ln := range r.parked {
		if !slices.Contains(but, id) {
			ln.close()
			delete(r.parked, id)
		}
	}
}

// fail ends the run with err, unless something else has failed before.
func (r *run) fail(err error) {
	r.mu.Lock()
	if r.failed == nil {
		r.failed = err
	}
	r.mu.Unlock()
	r.stop()
}

// generations takes up the lanes of one generation of the group after the other.
func (r *run) generations(group *kafka.ConsumerGroup) error {
	logger := r.log.logger
	for {
		gen, err := group.Next(r.ctx)
		switch {
		case r.ctx.Err() != nil:
			return nil
		case errors.Is(err, kafka.InvalidSessionTimeout):
			return fmt.Errorf("STREAM_SESSION_TIMEOUT=%v: not within what the brokers allow (group.min.session.timeout.ms, group.max.session.timeout.ms): %w",
				r.log.cfg.SessionTimeout, err)
		case errors.Is(err, kafka.GroupAuthorizationFailed), errors.Is(err, kafka.InconsistentGroupProtocol):
			return fmt.Errorf("joining group %s: %w", r.log.cfg.GroupID(r.spec.Name), err)
		case err != nil: // the group pauses and joins again by itself
			logger.Warn("joining the consumer group", keyStage, r.spec.Name, keyErr, err)
			continue
		}
		assigned := gen.Assignments[r.log.name(r.spec.Inputs[0])]
		lanes := make([]int, len(assigned))
		for i, a := range assigned {
			lanes[i] = a.ID
		}
		logger.Info("lanes assigned", keyStage, r.spec.Name, keyLanes, lanes)
		r.share.hold(lanes)
		r.forget(lanes)
		r.generation(gen, lanes)
	}
}

// generation runs lanes until the generation ends. The functions given to Start must not return before: that would end
// the generation, and kafka-go would join the group again although the run is over.
func (r *run) generation(gen *kafka.Generation, lanes []int) {
	var offsets commits
	over := make(chan struct{}) // all lanes are given up
	var running sync.WaitGroup
	running.Add(len(lanes))
	r.lanes.Add(len(lanes))
	go func() {
		running.Wait()
		close(over)
	}()
	for _, id := range lanes {
		gen.Start(func(genCtx context.Context) {
			r.lane(genCtx, &offsets, id, r.log.cfg.MaxBytesInFlight/int64(len(lanes)))
			running.Done()
			r.lanes.Done()
			<-genCtx.Done()
		})
	}
	gen.Start(func(genCtx context.Context) {
		tick := time.NewTicker(commitEvery)
		defer tick.Stop()
		for ended := genCtx.Done(); ; {
			select {
			case <-tick.C:
			case <-ended: // the lanes have something left to commit
				<-over
				r.commit(gen, offsets.take())
				return
			}
			r.commit(gen, offsets.take())
		}
	})
}

// commit tells the group how far the lanes are, for lag dashboards; nothing depends on it.
func (r *run) commit(gen *kafka.Generation, offsets map[string]map[int]int64) {
	if err := gen.CommitOffsets(offsets); err != nil {
		r.log.logger.Debug("committing offsets", keyStage, r.spec.Name, keyErr, err)
	}
}

// lane owns one lane for one generation. A fault that may pass takes the lane down and up again; any other ends the run.
func (r *run) lane(genCtx context.Context, offsets *commits, id int, budget int64) {
	reading, cancel := context.WithCancel(r.ctx)
	defer cancel()
	defer context.AfterFunc(genCtx, cancel)()
	work, cancelWork := context.WithCancel(context.WithoutCancel(r.ctx))
	defer cancelWork()
	defer context.AfterFunc(reading, func() {
		t := time.AfterFunc(r.log.cfg.DrainTimeout, cancelWork)
		context.AfterFunc(work, func() { t.Stop() })
	})()
	var pause backoff
	for reading.Err() == nil {
		begun := time.Now()
		err := r.laneOnce(reading, work, offsets, id, budget)
		switch {
		case err == nil:
			return
		case work.Err() != nil:
			r.log.logger.Warn("giving up a lane with work in hand", keyStage, r.spec.Name, keyLane, id, keyErr, err)
			return
		case !isTransient(err):
			r.fail(fmt.Errorf("lane %d: %w", id, err))
			return
		}
		r.log.metrics.restarts.WithLabelValues(r.spec.Name).Inc()
		r.log.logger.Warn("taking a lane up again", keyStage, r.spec.Name, keyLane, id, keyErr, err)
		if time.Since(begun) > time.Minute { // not the fault of before
			pause.reset()
		}
		if pause.wait(reading) != nil {
			return
		}
	}
}

// laneOnce runs the lane until it is given up, or fails. One that was given up with nothing left in hand is kept: the
// next generation may bring it back.
func (r *run) laneOnce(reading, work context.Context, offsets *commits, id int, budget int64) error {
	ln, err := r.takeUp(reading, id, budget)
	if err != nil {
		if reading.Err() != nil {
			return nil
		}
		return err
	}
	ln.commit = func(at map[schemas.Topic]int64) {
		for t, o := range at {
			offsets.add(r.log.name(t), id, o)
		}
	}
	if err := ln.run(reading, work); err != nil {
		ln.close()
		return err
	}
	r.park(ln)
	return nil
}

// takeUp returns the lane as it was left, if this process had it last, or makes it from its last mark.
func (r *run) takeUp(ctx context.Context, id int, budget int64) (*lane, error) {
	if ln := r.unpark(id); ln != nil {
		current, err := ln.current(ctx)
		if err == nil && current {
			ln.setBudget(budget)
			return ln, nil
		}
		ln.close()
		if err != nil {
			return nil, err
		}
	}
	ln := &lane{log: r.log, spec: r.spec, id: id, meter: r.meter}
	if err := ln.open(ctx, budget); err != nil {
		ln.close()
		return nil, err
	}
	return ln, nil
}
