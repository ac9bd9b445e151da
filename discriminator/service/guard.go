package service

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/pairstream/pairstream/discriminator"
	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/content/hardcaption"
	"github.com/pairstream/pairstream/internal/log/feedback"
	"github.com/pairstream/pairstream/schemas"
)

// guardSettings configure the guard of a process. It measures only with a least precision or an automatic threshold.
type guardSettings struct {
	least float64 // COND_MIN_PRECISION; 0: connections are always on
	high  float64 // threshold of connections
	auto  bool    // the measurement chooses the threshold
	keeps bool    // candidates stay where connections are off
	seed  uint64
	model string // fingerprint of Con-D

	tagger func() (hardcaption.Tagger, error) // loads it once
	words  func(texts []string) [][]int32     // token ids for Con-D
	people func(ctx context.Context, p feedback.Place) (discriminator.People, error)
}

// guard estimates the precision of Con-D's connections in a lane, on the lane's first batches. The lane mines no
// connections until the estimate is certain enough, and none at all if the precision may be no higher than
// COND_MIN_PRECISION.
//
// The measurement is a function of the batches, and its state lies in the marks. So a new owner continues it, and a
// verdict stays. Another Con-D, threshold or COND_MIN_PRECISION starts a new measurement.
//
// People's judgements of connections are no input of the lane. The guard reads them at the first batch of a group's
// epoch, and records them in the log before use (package internal/log/feedback). They may then change the verdict.
type guard struct {
	settings guardSettings
	state    guardState
	lane     int
	log      *slog.Logger
	gauges   gauges
	changed  bool // no record has the current check yet
}

// guardState is the guard's state in a mark.
type guardState struct {
	Model string              `json:"model"`
	High  float64             `json:"high,omitempty"` // threshold of connections; an automatic one is chosen at the end
	Auto  bool                `json:"auto,omitempty"`
	Check schemas.Check       `json:"check"`
	Known discriminator.Known `json:"known,omitzero"` // while the measurement is open

	People discriminator.People `json:"people,omitzero"` // judgements at the start of the epoch
	Own    *schemas.Precision   `json:"own,omitempty"`   // the estimate without People, once the measurement has ended
}

// newGuard restores a guard from a mark's state. nil is the start of a lane, or the mark of a discriminator without a
// guard.
func newGuard(s guardSettings, lane int, raw []byte, log *slog.Logger, gauges gauges) (*guard, error) {
	g := &guard{settings: s, lane: lane, log: log, gauges: gauges}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &g.state); err != nil {
			return nil, fmt.Errorf("lane %d: reading the state %.512q of the guard (a newer discriminator may have written it): %w", lane, raw, err)
		}
	}
	same := g.state.Model == s.model && g.state.Check.Least == s.leastShare() && g.state.Check.Precision != nil &&
		g.state.Auto == s.auto && (s.auto || g.state.High == s.high)
	if !same {
		check := discriminator.Known{}.Check(s.high, s.leastShare(), discriminator.People{})
		g.state = guardState{Model: s.model, High: s.high, Auto: s.auto, Check: check}
	}
	if s.measures() && !g.state.Check.Open {
		g.say()
	}
	g.show()
	return g, nil
}

// measures reports whether the guard is in use.
func (s guardSettings) measures() bool { return s.least > 0 || s.auto }

// leastShare returns the precision that connections need.
func (s guardSettings) leastShare() float64 {
	if s.least == 0 && s.auto {
		return discriminator.LeastPrecision
	}
	return s.least
}

// say logs the verdict.
func (g *guard) say() {
	if g.state.Check.Off() {
		g.log.Warn("connections are off", keyLane, g.lane, keyReason, g.state.Check.String())
		return
	}
	g.log.Info("connections are on", keyLane, g.lane, keyReason, g.state.Check.String())
}

// show sets the metrics of the lane.
func (g *guard) show() {
	if g.settings.measures() {
		g.gauges.show(g.lane, &g.state.Check)
	}
}

// enter reads people's judgements when an epoch of a group begins.
func (g *guard) enter(ctx context.Context, b *schemas.Batch) error {
	s := &g.state
	if !g.settings.measures() || b.Sequence > 0 {
		return nil
	}
	people, err := g.settings.people(ctx, feedback.Place{Lane: g.lane, Group: b.Group.Seq, Epoch: b.Epoch, Model: g.settings.model, Above: s.High})
	if err != nil {
		return err
	}
	if people == s.People {
		return nil
	}
	s.People = people
	if s.Check.Open {
		return nil // the next measurement counts them
	}
	if s.Own == nil {
		own := *s.Check.Precision
		s.Own = &own
	}
	before, with := s.Check, people.With(*s.Own)
	s.Check.Precision = &with
	if with == *before.Precision {
		return nil // too few to count
	}
	g.changed = true
	if s.Check.Off() != before.Off() {
		g.say()
	}
	g.show()
	return nil
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

// open reports whether the measurement is unfinished.
func (g *guard) open() bool { return g.settings.measures() && g.state.Check.Open }

// off reports whether no connections are mined, in this batch and all later ones.
func (g *guard) off() bool {
	return g.settings.measures() && !g.state.Check.Open && g.state.Check.Off()
}

// measure adds a batch to the measurement, and ends it when the estimate is certain enough. It returns the candidates
// that Con-D confirms.
func (g *guard) measure(ctx context.Context, core scorer, b *schemas.Batch, in discriminator.Input) (*schemas.Confirmed, error) {
	tagger, err := g.settings.tagger()
	if err != nil {
		return nil, fmt.Errorf("measuring Con-D: %w", err)
	}
	draws := rng.New(g.settings.seed, "known positives", int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence))
	q := discriminator.NewQuestions(b, in.Masked, tagger, draws)
	known, err := core.Known(ctx, b, in, q, g.settings.words(q.Edits))
	if err != nil {
		return nil, err
	}
	s := &g.state
	s.Known.Add(known)
	if s.Auto && s.Known.Looks() {
		before := s.High
		if s.High = s.Known.Threshold(g.settings.leastShare()); s.High != before {
			s.People = discriminator.People{} // counted above another threshold
		}
	}
	s.Check, g.changed = s.Known.Check(s.High, g.settings.leastShare(), s.People), true
	if !s.Check.Open {
		if s.People != (discriminator.People{}) {
			own := s.Known.Precision(s.High)
			s.Own = &own
		}
		s.Known = discriminator.Known{}
		g.say()
	}
	g.show()
	return known.Confirmed(s.High), nil
}

// check returns the check for a record. confirmed is the list of candidates that Con-D confirms in its batch.
func (g *guard) check(confirmed *schemas.Confirmed) *schemas.Check {
	c := g.state.Check
	c.Confirmed, g.changed = confirmed, false
	return &c
}

// Keys of log lines.
const (
	keyLane   = "lane"
	keyReason = "reason"
)
