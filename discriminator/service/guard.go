package service

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/schemas"
)

// enough is the number of known positives on which the guard decides. The standard error of an AUC of 0.5 is then 0.022.
const enough = 256

// guardSettings are what the guard of a process depends on. A least of 0 switches it off.
type guardSettings struct {
	least float64
	seed  uint64
	model string // fingerprint of Con-D
}

// guard measures how well Con-D tells known positives of a lane from mismatches, on the lane's first batches. Until it has
// enough, and for ever where Con-D is no better than COND_MIN_AUC, the lane mines no connections.
//
// The measurement is a function of the batches, and its state lies in the marks. So a new owner goes on with it, and a
// verdict stays. Another Con-D or another COND_MIN_AUC begins a new measurement.
type guard struct {
	settings guardSettings
	state    guardState
}

// guardState is what a mark says of the guard.
type guardState struct {
	Model string              `json:"model"`
	Check schemas.Check       `json:"check"`
	Known discriminator.Known `json:"known,omitzero"` // while the measurement is open
}

// newGuard goes on from a mark's state. nil is the start of a lane, or the mark of a discriminator without a guard.
func newGuard(s guardSettings, lane int, raw []byte, log *slog.Logger) (*guard, error) {
	g := &guard{settings: s}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &g.state); err != nil {
			return nil, fmt.Errorf("lane %d: reading the state %.512q of the guard (a newer discriminator may have written it): %w", lane, raw, err)
		}
	}
	if g.state.Model != s.model || g.state.Check.Least != s.least {
		g.state = guardState{Model: s.model, Check: schemas.Check{AUC: 0.5, Least: s.least, Open: true}}
	}
	if s.least > 0 && !g.state.Check.Open {
		g.say(log, lane)
	}
	return g, nil
}

// say logs the verdict.
func (g *guard) say(log *slog.Logger, lane int) {
	if g.state.Check.Off() {
		log.Warn("connections are off", "lane", lane, "reason", g.state.Check.String())
		return
	}
	log.Info("connections are on", "lane", lane, "reason", g.state.Check.String())
}

// mark returns the state for a mark.
func (g *guard) mark() ([]byte, error) {
	if g.settings.least == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(g.state)
	if err != nil {
		return nil, fmt.Errorf("writing the state of the guard: %w", err)
	}
	return raw, nil
}

// open reports whether the measurement goes on.
func (g *guard) open() bool { return g.settings.least > 0 && g.state.Check.Open }

// off reports whether no connections are mined, now and in all batches to come.
func (g *guard) off() bool { return g.settings.least > 0 && !g.state.Check.Open && g.state.Check.Off() }

// measure adds a batch to the measurement, and decides when there is enough.
func (g *guard) measure(ctx context.Context, core scorer, b *schemas.Batch, in discriminator.Input, log *slog.Logger) error {
	draws := rng.New(g.settings.seed, "known positives", int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence))
	known, err := core.Known(ctx, b, in, draws)
	if err != nil {
		return err
	}
	s := &g.state
	s.Known.Add(known)
	s.Check.Positives, s.Check.AUC = int32(len(s.Known.Positives)), s.Known.AUC()
	if s.Check.Positives >= enough {
		s.Check.Open, s.Known = false, discriminator.Known{}
		g.say(log, int(b.Group.Lane))
	}
	return nil
}

// check returns what a record says of the guard.
func (g *guard) check() *schemas.Check {
	c := g.state.Check
	return &c
}
