package fetch

import (
	"context"
	"errors"
	"sync/atomic"
)

// Getter downloads single images, within the bounds of [Options]. It is safe for concurrent use.
type Getter struct {
	c     *client
	order atomic.Int64
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing is downloaded any more
}

// NewGetter returns a getter, which the caller closes. The options that concern lists and shards have no effect.
func NewGetter(o Options) (*Getter, error) {
	o.URLColumn, o.CaptionColumn, o.PerShard = "url", "caption", 1
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Getter{c: c, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		c.dispatch(ctx)
	}()
	return g, nil
}

// Get returns the image of a URL. The text of its error begins with the reason in a word; Get returns the context's error
// where the caller has given up.
func (g *Getter) Get(ctx context.Context, url string) ([]byte, error) {
	to, err := newSpool()
	if err != nil {
		return nil, err
	}
	type result struct {
		data []byte
		err  error
	}
	got := make(chan result, 1) // the caller may have gone
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // what waits for the caller's end is not kept for longer
	g.c.get(&task{order: g.order.Add(1), to: to, caller: ctx, done: func(image []span, err error) {
		var data []byte
		if err == nil {
			data, err = to.read(image)
		}
		got <- result{data, errors.Join(err, to.close())}
	}}, url)
	select {
	case r := <-got:
		if r.err != nil && ctx.Err() != nil { // it ended because the caller has gone
			return nil, ctx.Err()
		}
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-g.ended:
		return nil, errors.New("the getter is closed")
	}
}

// Close ends what is downloaded, and idle connections.
func (g *Getter) Close() {
	g.stop()
	<-g.ended
	g.c.http.CloseIdleConnections()
}
