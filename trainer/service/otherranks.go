package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/model/device"
	"github.com/pairstream/pairstream/internal/model/ranks"
	"github.com/pairstream/pairstream/trainer"
)

// others are the ranks other than rank 0, through losses and returns. A nil others is a training without ranks.
type others struct {
	tools    device.Tools
	settings Settings
	core     *trainer.Trainer
	group    *ranks.Leader // nil: they are not gathered
	traffic  traffic
}

// lead waits for all other ranks and gives them the state.
func lead(ctx context.Context, tools device.Tools, s Settings, core *trainer.Trainer) (*others, error) {
	o := &others{tools: tools, settings: s, core: core}
	if err := o.traffic.register(tools.Instruments); err != nil {
		return nil, err
	}
	return o, o.gather(ctx)
}

// gather waits until all ranks are present and hold one state. When a rank is lost meanwhile, all join again.
func (o *others) gather(ctx context.Context) error {
	log, r := o.tools.Instruments.Log, o.settings.Ranks
	for {
		log.Info("waiting for the other ranks", keyStage, Name, keyCount, r.WorldSize-1, keyAddress, r.address())
		taken, err := o.tryGather(ctx)
		switch {
		case err == nil:
			log.Info("all ranks are there", keyStage, Name, keyCount, r.WorldSize, keyStep, o.core.Steps(), keyTookState, taken)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, ranks.ErrLost):
			return err
		}
		log.Warn("a rank was lost while the ranks joined one another: they do so again", keyErr, err)
	}
}

func (o *others) tryGather(ctx context.Context) (taken int, err error) {
	group, err := ranks.Lead(ctx, o.settings.group(o.tools))
	if err != nil {
		return 0, err
	}
	o.traffic.of(group.Traffic)
	if taken, err = giveState(ctx, group, o.core); err != nil {
		group.Close(reason(ctx, err))
		return 0, fmt.Errorf("giving the state to all ranks: %w", err)
	}
	o.group = group
	return taken, nil
}

// share returns the two parts that share the batches of steps among the ranks: the core for the loop, and the errands
// for its feed.
func (o *others) share() (core, *errands) {
	p := places{world: o.settings.Ranks.WorldSize, batches: o.settings.Core.StepBatches}
	return newLeader(o.core, o.group, p), &errands{o.group, p}
}

// leave tells the ranks why rank 0 ends; nil: the training is over. It reports whether every rank was told.
func (o *others) leave(why error) (told bool) {
	if o == nil || o.group == nil {
		return true
	}
	told = o.group.Close(why)
	o.group = nil
	return told
}

// errUntold is the loss of a rank that was not told about the end of the training. It waits for rank 0.
var errUntold = fmt.Errorf("a rank was lost at the end of the training: %w", ranks.ErrLost)

// through runs the loop to the end of the training. When a rank is lost, the loop continues after its last whole step
// as soon as all ranks are back. next makes the feed for that. stays says that the process outlives the training.
func (l *loop) through(ctx context.Context, f *feed, stays bool, next func(context.Context) (*feed, error)) error {
	for {
		err := l.run(ctx, f)
		if err == nil {
			err = l.atTheEnd(ctx, stays)
		}
		if lost := errors.Is(err, ranks.ErrLost); lost && ctx.Err() != nil {
			err = ctx.Err() // all ranks are stopping, and one was quicker
		} else if lost {
			if closed := f.close(); closed != nil {
				return l.leave(ctx, errors.Join(err, closed))
			}
			if f, err = l.goOn(ctx, err, next); err == nil {
				continue
			}
			return l.leave(ctx, err)
		}
		return l.leave(ctx, errors.Join(err, f.close()))
	}
}

// atTheEnd writes the last checkpoint and tells all ranks that the training is over, at the end of the process.
func (l *loop) atTheEnd(ctx context.Context, stays bool) error {
	if err := l.leave(ctx, nil); err != nil {
		return err
	}
	l.plan.compare(l.core.Steps(), l.logger)
	switch {
	case stays:
		l.logger.Info("every lane has ended", keyStep, l.core.Steps())
		return l.outlast(ctx)
	case !l.others.leave(nil):
		return errUntold
	}
	return nil
}

// outlast waits for the end of the process, of a rank or of this trainer's time as the owner.
func (l *loop) outlast(ctx context.Context) error {
	both, working := errgroup.WithContext(ctx)
	watching, over := context.WithCancel(working)
	both.Go(func() error { return l.owner.watch(watching) })
	both.Go(func() error {
		defer over()
		if l.watch != nil {
			return l.watch(watching)
		}
		<-watching.Done()
		return nil
	})
	return both.Wait()
}

// goOn waits until all ranks are back, and makes the feed that continues after the last whole step.
func (l *loop) goOn(ctx context.Context, lost error, next func(context.Context) (*feed, error)) (f *feed, err error) {
	began := time.Now()
	l.logger.Warn("a rank is lost: this one keeps its state and waits until all are there", keyStep, l.core.Steps(), keyErr, lost)
	l.metrics.lost.Inc()
	l.others.leave(lost)
	if err = l.others.gather(ctx); err == nil {
		err = l.publisher.Flush(ctx)
	}
	if err == nil {
		f, err = next(ctx)
	}
	if err != nil && interrupt.Failure(err) == nil {
		return nil, err // all ranks are stopping, and one was quicker
	}
	if err != nil {
		return nil, fmt.Errorf("%w; %w", lost, err)
	}
	l.logger.Info("the training goes on", keyStep, l.core.Steps(), keyDur, time.Since(began))
	return f, nil
}

// loading is the number of batches whose images are loaded at the same time. Loading one batch at a time would wait for
// its slowest image, and a bucket answers many requests at once.
const loading = 4

// start begins to load the images of w.
func (w *work) start(ctx context.Context) {
	w.loaded = make(chan error, 1)
	if w.load == nil {
		w.loaded <- nil
		return
	}
	go func() { w.loaded <- w.load(ctx) }()
}

// wait waits for the images and returns the error of loading them.
func (w *work) wait() error { return <-w.loaded }

// loadAhead loads the images of several batches at once, and hands the batches on in the order in which next returns
// them. It ends when next returns nil, or with the first error in that order.
func loadAhead(ctx context.Context, next func(context.Context) (*work, error), out chan<- work) error {
	group, ctx := errgroup.WithContext(ctx)
	started := make(chan *work, loading-2) // besides the one being waited for and the one waiting to be sent
	group.Go(func() error {
		defer close(started)
		for {
			w, err := next(ctx)
			if w == nil || err != nil {
				return err
			}
			w.start(ctx)
			select {
			case started <- w:
			case <-ctx.Done():
				return drop(w, ctx.Err())
			}
		}
	})
	group.Go(func() error { return handOn(ctx, started, out) })
	err := group.Wait()
	for w := range started {
		_ = drop(w, nil)
	}
	return err
}

// handOn waits for the images of one batch after the other.
func handOn(ctx context.Context, started <-chan *work, out chan<- work) error {
	for w := range started {
		if err := w.wait(); err != nil {
			w.input.Free()
			return err
		}
		select {
		case out <- *w:
		case <-ctx.Done():
			w.input.Free()
			return ctx.Err()
		}
	}
	return nil
}

// drop frees the images of a batch that will not be trained on, once they are loaded.
func drop(w *work, err error) error {
	_ = w.wait() // the error of a cancelled load
	w.input.Free()
	return err
}
