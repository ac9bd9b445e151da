// Package service is the grouper as a service: it feeds a lane's groups, neighbours, embeddings and features to the
// core in the order in which the core asks for them, and writes batches.
//
// A crash takes a lane back to the start of its epoch. Every batch carries a mark. It leads to the group's manifest
// (with EPOCH_GROUPS above 1 to the first of the window), and to the batches and features of the epoch before. The core
// reads the members anew and makes the same batches. The amount to read does not grow with the epochs. The mark also
// holds the options of the open group. A new owner with other options finishes that group with the old ones, and uses
// its own for the next.
//
// A group without any possible batch is set aside: its manifest goes to the dead letters with the reason.
package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/schemas"
)

type stage struct {
	core        *grouper.Lane
	instruments *service.Instruments
	start       stream.Mark // of the group in hand
	mark        stream.Mark // of the epoch in hand
	places      places
	resumed     *grouper.Resume // where the lane goes on; nil: at the start of a group
	manifest    stream.Record   // of the group in hand
	spool       *spool
}

// forgone returns the features that a lane must go on without.
type forgone func(lane int) ([]grouper.Due, error)

func newFactory(o grouper.Options, spoolDir string, without forgone, walked func(int), planner grouper.Planner, instruments *service.Instruments) stream.Factory {
	return func(lane int, raw []byte) (stream.Stage, error) {
		core, err := grouper.NewLane(o, lane)
		if err != nil {
			return nil, err
		}
		dues, err := without(lane)
		if err != nil {
			return nil, fmt.Errorf("lane %d: asking what it goes on without: %w", lane, err)
		}
		core.GiveUp(dues...)
		begun, err := decodeState(raw)
		if err != nil {
			return nil, fmt.Errorf("lane %d: %w", lane, err)
		}
		if begun != nil {
			if err := begun.tell(core); err != nil {
				return nil, fmt.Errorf("lane %d: finishing a group with the settings %s that it was begun with: %w", lane, raw, err)
			}
			if core.Options() != o {
				instruments.Log.Warn("an open group keeps the settings that it was begun with", keyLane, lane, keyBegunWith, string(raw))
			}
		}
		s := &stage{core: core, instruments: instruments, spool: &spool{dir: spoolDir}, places: placesOf(-1)}
		core.KeepIn(s.spool)
		core.OnWalk(walked)
		core.PlanWith(planner)
		if begun != nil && begun.Resume != nil {
			s.places, s.resumed = placesOf(begun.Resume.Group), begun.Resume
		}
		return s, nil
	}
}

// Input implements [stream.Stage].
func (s *stage) Input() schemas.Topic { return s.core.Needs() }

// Waiting describes the next record that the lane needs.
func (s *stage) Waiting() string { return s.core.WaitsFor() }

// Forgoes implements [stream.Forgoer]: no features will come for a batch that an operator has skipped at the
// discriminator or the trainer.
func (s *stage) Forgoes() (fmt.Stringer, []stream.Maker) {
	due, waits := s.core.Awaits()
	if !waits {
		return nil, nil
	}
	return due, []stream.Maker{{Stage: "discriminator", Reads: schemas.Batches}, {Stage: "trainer", Reads: schemas.Scored}}
}

// Process implements [stream.Stage].
func (s *stage) Process(ctx context.Context, rec stream.Record, out stream.Output) error {
	value, err := schemas.Unmarshal(rec.Schema, rec.Value)
	if err != nil {
		return stream.Poison(err)
	}
	if s.core.BetweenGroups() {
		options, err := encodeState(s.core.Options(), nil)
		if err != nil {
			return err
		}
		s.start = out.Before(rec, options)
		s.mark = s.start
		if r := s.resumed; r != nil {
			s.places.begin(r.From, s.start)
			s.resumed = nil
		}
	}
	defer s.instruments.Batch()()
	if g, ok := value.(*schemas.Group); ok {
		s.instruments.PairsIn(int(g.Count))
		s.manifest = rec
	}
	if b, ok := value.(*schemas.Batch); ok { // made before the place where the lane goes on
		s.places.own(b, rec.Seq)
	}
	err = s.core.Add(ctx, grouper.Input{Record: value, Value: rec.Value, Seq: rec.Seq}, func(made schemas.Record) error {
		if b, ok := made.(*schemas.Batch); ok {
			s.instruments.PairsOut(len(b.Samples))
			if err := s.reach(b, rec, out); err != nil {
				return err
			}
		}
		return out.Emit(schemas.Batches, made, s.resume(made, rec, out))
	})
	if err == nil {
		s.places.note(s.core, rec, out)
	}
	var aside *grouper.SetAsideError
	switch {
	case errors.As(err, &aside):
		return out.DeadLetter(s.manifest, err.Error())
	case errors.Is(err, grouper.ErrUnexpected):
		return stream.Poison(err)
	}
	return err
}

// resume returns the start of the epoch, or, once nothing of the group remains to be made, the place after it. A lane
// that holds a record of a later group goes back to before it.
func (s *stage) resume(made schemas.Record, rec stream.Record, out stream.Output) stream.Mark {
	switch b := made.(type) {
	case *schemas.Batch:
		if !s.core.Ends(b) {
			return s.mark
		}
	case *schemas.Seal:
		if !s.core.BetweenGroups() {
			return s.mark
		}
	}
	return out.After(rec, nil)
}

// Close implements [io.Closer].
func (s *stage) Close() error { return s.spool.Clear() }

// Flush implements [stream.Stage]; nothing is held back.
func (s *stage) Flush(context.Context, stream.Output) error { return nil }

// Keys of log lines.
const (
	keyLane      = "lane"
	keyBegunWith = "begun_with"
)
