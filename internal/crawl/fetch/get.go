package fetch

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Getter downloads single images, within the bounds of [Options]. It is safe for concurrent use.
type Getter struct {
	c      *client
	memory *semaphore.Weighted // bytes of images that callers have in hand
	stop   context.CancelFunc
	ended  chan struct{} // closed when nothing is downloaded any more
}

// largestInHand is the number of the largest images that callers may have in hand at once.
const largestInHand = 16

// NewGetter returns a getter, which the caller closes. The options that concern lists and shards have no effect.
func NewGetter(o Options) (*Getter, error) {
	o.PerShard = 1
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Getter{c: c, memory: semaphore.NewWeighted(largestInHand * o.MaxBytes), stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		c.dispatch(ctx)
	}()
	return g, nil
}

// Get returns the image of a URL. The text of its error begins with the reason in one word. When ctx has ended, Get
// returns the context's error.
func (g *Getter) Get(ctx context.Context, url string) (data []byte, err error) {
	g.GetAll(ctx, []string{url}, func(_ int, image []byte, fault error) { data, err = image, fault })
	return data, err
}

// GetAll downloads the images of URLs and passes each to the function, with its index, as it arrives. The error of a URL
// without an image is that of [Getter.Get]. GetAll makes one call at a time, and returns after the last one. The URLs of
// all callers share the queues of their hosts: a later caller with few URLs goes between those of a caller with many.
func (g *Getter) GetAll(ctx context.Context, urls []string, each func(index int, image []byte, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // frees the functions that wait for the caller's end
	b := &batch{g: g, each: each, left: len(urls), told: make([]bool, len(urls)), done: make(chan struct{})}
	if len(urls) == 0 {
		return
	}
	g.c.mu.Lock()
	order := g.c.schedule.latest
	g.c.mu.Unlock()
	tasks := make([]*task, len(urls))
	for i, url := range urls {
		order++
		to := new(spool)
		tasks[i] = &task{order: order, to: to, caller: ctx, done: func(image []chunk, err error) { b.end(ctx, i, to, image, err) }}
		g.c.get(tasks[i], url)
	}
	stop := context.AfterFunc(ctx, func() {
		for _, t := range tasks {
			g.c.abandon(t)
		}
	})
	defer stop()
	select {
	case <-b.done:
	case <-g.ended:
		b.close()
	}
}

// batch holds the state of one call of GetAll.
type batch struct {
	g    *Getter
	each func(index int, image []byte, err error)
	done chan struct{} // closed behind the last call

	mu   sync.Mutex
	left int
	told []bool // by index
}

// end reads an image back, and passes it on.
func (b *batch) end(ctx context.Context, index int, to *spool, image []chunk, err error) {
	var data []byte
	if err == nil {
		if err = b.g.memory.Acquire(ctx, sizeOf(image)); err == nil {
			defer b.g.memory.Release(sizeOf(image))
			if data, err = to.read(image); err != nil {
				err = &localError{err}
			}
		}
	}
	if fault := to.close(); err == nil && fault != nil {
		err = &localError{fault}
	}
	if err != nil {
		data = nil
		if ctx.Err() != nil { // it ended because the caller has gone
			err = ctx.Err()
		}
	}
	b.tell(index, data, err)
}

func (b *batch) tell(index int, data []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.told[index] {
		return
	}
	b.told[index] = true
	b.each(index, data, err)
	if b.left--; b.left == 0 {
		close(b.done)
	}
}

// close fails the downloads that have no result when the getter is closed.
func (b *batch) close() {
	for index := range b.told {
		b.tell(index, nil, errors.New("the getter is closed"))
	}
}

// Close ends all downloads, and closes idle connections.
func (g *Getter) Close() {
	g.stop()
	<-g.ended
	g.c.http.CloseIdleConnections()
}

// Reason returns in one word why a URL gave no image, such as "robots" or "http_404". It is "" for a fault of this
// machine, and for a caller that has given up. The text of the error is longer, and may describe the network of this
// machine.
func Reason(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	return ""
}
