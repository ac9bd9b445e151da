// Package timing times the phases of one piece of work, for its spans (package tracing). Whoever does the work tells
// the context what it does. Whoever wants to know puts a [Collector] into the context. Without one nothing is timed.
package timing

import (
	"context"
	"sync"
	"time"
)

// The phases of work that spans tell apart.
const (
	Fetch   = "fetch"
	Decode  = "decode"
	Compute = "compute"
)

// Phase is when work of one kind went on: from its first beginning to its last end.
type Phase struct {
	Name     string
	From, To time.Time
}

// Collector collects the phases of one piece of work. It is safe for concurrent use; the zero value is ready.
type Collector struct {
	mu   sync.Mutex
	list []Phase
}

type collectorKey struct{}

// With returns a context whose work c collects.
func With(ctx context.Context, c *Collector) context.Context {
	return context.WithValue(ctx, collectorKey{}, c)
}

// Begin begins work of a kind. The function that it returns ends it. Without a collector it does nothing.
func Begin(ctx context.Context, name string) (end func()) {
	c, ok := ctx.Value(collectorKey{}).(*Collector)
	if !ok {
		return func() {}
	}
	from := time.Now()
	return func() { c.add(Phase{name, from, time.Now()}) }
}

func (c *Collector) add(n Phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.list {
		if old := &c.list[i]; old.Name == n.Name {
			if n.From.Before(old.From) {
				old.From = n.From
			}
			if n.To.After(old.To) {
				old.To = n.To
			}
			return
		}
	}
	c.list = append(c.list, n)
}

// List returns what was collected.
func (c *Collector) List() []Phase {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Phase(nil), c.list...)
}
