package ingest

import (
	"context"
	"sync"
	"time"
)

// shared asks the log one question for all requests that need the answer. One request asks, and the others wait for the
// same answer, so a silent log delays each of them only once.
type shared[T any] struct {
	mu    sync.Mutex
	going chan struct{} // closed when the pending question has its answer; nil: none is pending
	began time.Time     // start of the last answered question
	value T
	fault error
}

// get returns an answer at most age old, or a fault at most lagEvery old.
func (l *shared[T]) get(ctx context.Context, g *gate, age time.Duration, ask func(context.Context) (T, error)) (T, error) {
	arrived := g.now()
	for {
		l.mu.Lock()
		if l.fault != nil {
			age = min(age, lagEvery)
		}
		if !l.began.IsZero() && !l.began.Before(arrived.Add(-age)) {
			defer l.mu.Unlock()
			return l.value, l.fault
		}
		if l.going == nil {
			l.going = make(chan struct{})
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.patience) // others also need the answer
			go func(began time.Time) {
				defer cancel()
				value, err := ask(limited)
				l.end(value, err, began)
			}(g.now())
		}
		going := l.going
		l.mu.Unlock()
		select {
		case <-going:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (l *shared[T]) end(value T, fault error, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.value, l.fault, l.began = value, fault, began
	close(l.going)
	l.going = nil
}

// wait returns when no question is pending.
func (l *shared[T]) wait() {
	l.mu.Lock()
	going := l.going
	l.mu.Unlock()
	if going != nil {
		<-going
	}
}
