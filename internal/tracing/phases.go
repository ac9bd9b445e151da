package tracing

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

// Phases collects the phases of one piece of work. It is safe for concurrent use; the zero value is ready.
type Phases struct {
	mu   sync.Mutex
	list []Phase
}

type phasesKey struct{}

// With returns a context whose work p collects.
func With(ctx context.Context, p *Phases) context.Context {
	return context.WithValue(ctx, phasesKey{}, p)
}

type aboutKey struct{}

// WithAbout returns a context for the publishing of what the subjects are about.
func WithAbout(ctx context.Context, subjects []Subject) context.Context {
	if subjects == nil {
		return ctx
	}
	return context.WithValue(ctx, aboutKey{}, subjects)
}

// About returns the subjects of a context.
func About(ctx context.Context) []Subject {
	subjects, _ := ctx.Value(aboutKey{}).([]Subject)
	return subjects
}

// Begin begins work of a kind. The function that it returns ends it. Without a collector it does nothing.
func Begin(ctx context.Context, name string) (end func()) {
	p, ok := ctx.Value(phasesKey{}).(*Phases)
	if !ok {
		return func() {}
	}
	from := time.Now()
	return func() { p.add(Phase{name, from, time.Now()}) }
}

func (p *Phases) add(n Phase) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.list {
		if old := &p.list[i]; old.Name == n.Name {
			if n.From.Before(old.From) {
				old.From = n.From
			}
			if n.To.After(old.To) {
				old.To = n.To
			}
			return
		}
	}
	p.list = append(p.list, n)
}

// List returns what was collected.
func (p *Phases) List() []Phase {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Phase(nil), p.list...)
}
