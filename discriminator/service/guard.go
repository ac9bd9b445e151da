package service

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/wording"
	"github.com/pairstream/pairstream/schemas"
)

// guardSettings are what the guard of a process depends on. Without a least precision and an automatic threshold it does not
// measure.
type guardSettings struct {
	least float64 // COND_MIN_PRECISION; 0: connections are always on
	high  float64 // threshold of connections
	say   bool    // COND_THRESHOLD is set: records say the threshold
	auto  bool    // the threshold is chosen by what is measured
	seed  uint64
	model string // fingerprint of Con-D

	tagger func() (wording.Tagger, error) // loads it once
	words  func(texts []string) [][]int32 // token ids for Con-D
}

// guard estimates how much is true of Con-D's connections in a lane, on the lane's first batches. Until it knows enough, and
// for ever where the precision may be no higher than COND_MIN_PRECISION, the lane mines no connections.
//
// The measurement is a function of the batches, and its state lies in the marks. So a new owner goes on with it, and a
// verdict stays. Another Con-D, threshold or COND_MIN_PRECISION begins a new measurement.
type guard struct {
	settings guardSettings
	state    guardState
}

// guardState is what a mark says of the guard.
type guardState struct {
	Model string              `json:"model"`
	High  float64             `json:"high,omitempty"` // threshold of connections; that of auto is chosen at the end
	Auto  bool                `json:"auto,omitempty"`
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
	same := g.state.Model == s.model && g.state.Check.Least == s.leastShare() && g.state.Check.Precision != nil &&
		g.state.Auto == s.auto && (s.auto || g.state.High == s.high)
	if !same {
		check := discriminator.Known{}.Check(s.high, s.leastShare())
		g.state = guardState{Model: s.model, High: s.high, Auto: s.auto, Check: check}
	}
	if s.measures() && !g.state.Check.Open {
		g.say(log, lane)
	}
	return g, nil
}

// measures reports whether there is a guard.
func (s guardSettings) measures() bool { return s.least > 0 || s.auto }

// leastShare is the precision that is wanted.
func (s guardSettings) leastShare() float64 {
	if s.least == 0 && s.auto {
		return discriminator.LeastPrecision
	}
	return s.least
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
	if !g.settings.measures() {
		return nil, nil
	}
	raw, err := json.Marshal(g.state)
	if err != nil {
		return nil, fmt.Errorf("writing the state of the guard: %w", err)
	}
	return raw, nil
}

// open reports whether the measurement goes on.
func (g *guard) open() bool { return g.settings.measures() && g.state.Check.Open }

// off reports whether no connections are mined, now and in all batches to come.
func (g *guard) off() bool {
	return g.settings.measures() && !g.state.Check.Open && g.state.Check.Off()
}

// measure adds a batch to the measurement, and decides when there is enough.
func (g *guard) measure(ctx context.Context, core scorer, b *schemas.Batch, in discriminator.Input, log *slog.Logger) error {
	tagger, err := g.settings.tagger()
	if err != nil {
		return fmt.Errorf("measuring Con-D: %w", err)
	}
	draws := rng.New(g.settings.seed, "known positives", int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence))
	q := discriminator.NewQuestions(b, in.Masked, tagger, draws)
	known, err := core.Known(ctx, b, in, q, g.settings.words(q.Edits))
	if err != nil {
		return err
	}
	s := &g.state
	s.Known.Add(known)
	if s.Auto {
		s.High = s.Known.Threshold(g.settings.leastShare())
	}
	s.Check = s.Known.Check(s.High, g.settings.leastShare())
	if !s.Check.Open {
		s.Known = discriminator.Known{}
		g.say(log, int(b.Group.Lane))
	}
	return nil
}

// check returns what a record says of the guard.
func (g *guard) check() *schemas.Check {
	c := g.state.Check
	return &c
}

// threshold returns what a record says of the threshold. 0: the reader's own.
func (g *guard) threshold() float64 {
	if g.settings.say {
		return g.state.High
	}
	return 0
}
