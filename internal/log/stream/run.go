package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pairstream/pairstream/internal/log/kafka"
)

// Run runs a stage on the lanes that its consumer group assigns to this process, until ctx ends or a lane fails for
// good. When the group rebalances, and when ctx ends, Run finishes the work in hand. That takes at most
// Config.DrainTimeout (and half of the session, in which the group must hear of a member). A lane that is busy for
// longer continues beside the group. It is cut short only when it gets another owner.
func (l *Log) Run(ctx context.Context, spec StageSpec) error {
	if err := spec.validate(); err != nil {
		return err
	}
	if err := l.AwaitTopics(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("stage %s: %w", spec.Name, err)
	}
	group, err := l.JoinGroup(spec.Name, spec.Inputs[0])
	if err != nil {
		return fmt.Errorf("stage %s: %w", spec.Name, err)
	}
	r := &run{spec: spec, workers: make(map[int]*worker)}
	r.ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	r.roster = l.newRoster(spec.Name, slices.Concat(spec.Inputs, spec.Outputs), spec.Counters, r.fail)
	r.lookForAnew(r.ctx)
	watching := r.watch()
	err = errors.Join(r.generations(group), r.leave(group))
	r.end()
	watching()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err = errors.Join(r.failed, err); err != nil {
		return fmt.Errorf("stage %s: %w", spec.Name, err)
	}
	return nil
}

// leave waits until the lanes are given up, and leaves the group.
func (r *run) leave(group *kafka.Group) error {
	r.stop()
	return group.Leave(r.turns.Wait)
}

// run is one call of Run.
type run struct {
	*roster
	spec    StageSpec
	ctx     context.Context //nolint:containedctx // ends when Run is to return
	stop    context.CancelFunc
	turns   sync.WaitGroup  // those still running
	ended   sync.WaitGroup  // all workers ever
	workers map[int]*worker // of the lanes of the latest generation

	mu     sync.Mutex
	failed error // why the run failed
}

// watch starts the watchdog. The returned function ends it.
func (r *run) watch() (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	var watching sync.WaitGroup
	watching.Go(func() { r.watchdog.Run(ctx) })
	watching.Go(func() { r.watchTopics(ctx) })
	return func() {
		cancel()
		watching.Wait()
	}
}

// keep ends the workers of lanes that have another owner. They have had time to finish.
func (r *run) keep(lanes []int) {
	for id, w := range r.workers {
		if !slices.Contains(lanes, id) {
			w.kill()
			delete(r.workers, id)
			r.forget(id)
		}
	}
}

// end waits until the workers have nothing in hand, for the drain time at most, and ends them.
func (r *run) end() {
	patience := time.NewTimer(r.log.cfg.DrainTimeout)
	defer patience.Stop()
	for _, w := range r.workers {
		select {
		case <-w.last.over:
		case <-patience.C:
			patience.Reset(0) // for the next workers
		}
	}
	r.keep(nil)
	r.instruments.c.Lanes.Store(0)
	r.ended.Wait()
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

// generations runs the lanes of the group's generations, one generation after the other.
func (r *run) generations(group *kafka.Group) error {
	for {
		gen, err := group.Next(r.ctx)
		switch {
		case r.ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		r.log.logger.Info("lanes assigned", keyStage, r.spec.Name, keyLanes, gen.Lanes)
		r.instruments.c.Lanes.Store(int64(len(gen.Lanes)))
		r.keep(gen.Lanes)
		r.generation(gen)
	}
}

// generation gives each lane's worker a turn until the generation ends. The functions given to Start must not return
// earlier. That would end the generation, and kafka-go would join the group again although the run is over.
//
// Then they wait for the work in hand, but not longer than the drain time, so that one large piece of work does not
// stop the whole group. If its lane stays here, the work is not lost.
func (r *run) generation(gen *kafka.Generation) {
	lanes := gen.Lanes
	offsets := kafka.NewCommits(r.saying.Load())
	r.saying.Store(offsets)
	var turns sync.WaitGroup
	turns.Add(len(lanes))
	r.turns.Add(len(lanes))
	for _, id := range lanes {
		w := r.workers[id]
		if w == nil {
			w = r.newWorker(id)
			r.workers[id] = w
		}
		reading, cancel := context.WithCancel(r.ctx)
		t := turn{reading: reading, offsets: offsets, budget: r.log.cfg.MaxBytesInFlight / int64(len(lanes)), over: make(chan struct{})}
		w.give(t)
		gen.Start(func(genCtx context.Context) {
			select {
			case <-genCtx.Done():
			case <-r.ctx.Done():
			}
			cancel()
			r.drain(w.id, t)
			turns.Done()
			r.turns.Done()
			<-genCtx.Done()
		})
	}
	if len(lanes) == 0 {
		gen.Start(r.rejoin)
	}
	gen.Start(func(genCtx context.Context) {
		tick := time.NewTicker(commitEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.commit(gen, offsets)
			case <-genCtx.Done():
				turns.Wait() // the lanes have something left to commit
				r.commit(gen, offsets)
				return
			}
		}
	})
}

func (r *run) drain(lane int, t turn) {
	patience := time.NewTimer(r.log.cfg.Patience())
	defer patience.Stop()
	select {
	case <-t.over:
	case <-patience.C:
		r.log.logger.Warn("a lane still has work in hand", keyStage, r.spec.Name, keyLane, lane)
	}
}

// commit commits the lanes' offsets, for lag dashboards only.
func (r *run) commit(gen *kafka.Generation, saying *kafka.Commits) {
	if err := gen.Commit(context.WithoutCancel(r.ctx), saying); err != nil {
		r.log.logger.Debug("committing offsets", keyStage, r.spec.Name, keyErr, err)
	}
}
