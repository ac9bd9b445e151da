package service

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// loading is the number of batches whose images are loaded at the same time. One batch after another would wait for its
// slowest image, and a bucket answers many requests at once.
const loading = 4

// start begins to load the images of w. wait returns when they are there.
func (w *work) start(ctx context.Context) {
	w.loaded = make(chan error, 1)
	if w.load == nil {
		w.loaded <- nil
		return
	}
	go func() { w.loaded <- w.load(ctx) }()
}

// wait returns what became of the images.
func (w *work) wait() error { return <-w.loaded }

// loadAhead loads the images of several batches at once, as next returns them, and hands the batches on in that order. It
// ends when next returns nil, or with the first error in that order.
func loadAhead(ctx context.Context, next func(context.Context) (*work, error), out chan<- work) error {
	group, ctx := errgroup.WithContext(ctx)
	started := make(chan *work, loading-2) // beside the one that is waited for, and the one that waits for a place
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

// drop gives back the images of a batch that nobody trains on, once they are there.
func drop(w *work, err error) error {
	_ = w.wait() // the error of a load that was called off
	w.input.Free()
	return err
}
