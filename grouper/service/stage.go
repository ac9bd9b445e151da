// Package service is the grouper as a service: it feeds a lane's groups, neighbours, embeddings and features to the core
// in the order in which the core asks for them, and writes batches.
//
// A crash takes a lane back to the start of its group, or of its window with EPOCH_ORDER=lane: every batch carries the mark of the place before the group's
// manifest, and the core, given the same records again, makes the same batches. The mark holds the options that the group
// was begun with. A new owner with other options finishes that group with the old ones, and makes the next with its own.
//
// A group of which no batch can be made is set aside: its manifest goes to the dead letters with the reason.
package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/service"
	"github.com/pairstream/pairstream/internal/stream"
	"github.com/pairstream/pairstream/schemas"
)

type stage struct {
	core        *grouper.Lane
	instruments *service.Instruments
	start       stream.Mark   // of the group in hand
	manifest    stream.Record // of the group in hand
	spool       *spool
}

// forgone tells what a lane goes on without.
type forgone func(lane int) ([]grouper.Due, error)

func newFactory(o grouper.Options, spoolDir string, without forgone, instruments *service.Instruments) stream.Factory {
	return func(lane int, state []byte) (stream.Stage, error) {
		core, err := grouper.NewLane(o, lane)
		if err != nil {
			return nil, err
		}
		dues, err := without(lane)
		if err != nil {
			return nil, fmt.Errorf("lane %d: asking what it goes on without: %w", lane, err)
		}
		core.GiveUp(dues...)
		begun, err := decodeOptions(state)
		if err != nil {
			return nil, fmt.Errorf("lane %d: %w", lane, err)
		}
		if begun != nil {
			if err := core.Finish(*begun); err != nil {
				return nil, fmt.Errorf("lane %d: finishing a group with the settings %s that it was begun with: %w", lane, state, err)
			}
			if core.Options() != o {
				instruments.Log.Warn("an open group keeps the settings that it was begun with", keyLane, lane, keyBegunWith, string(state))
			}
		}
		s := &stage{core: core, instruments: instruments, spool: &spool{dir: spoolDir}}
		core.KeepIn(s.spool)
		return s, nil
	}
}

// encodeOptions writes the options that shape batches, for a new owner and for people.
func encodeOptions(o grouper.Options) ([]byte, error) {
	o.Workers = 0
	state, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("encoding the options of a group: %w", err)
	}
	return state, nil
}

// decodeOptions reads what encodeOptions wrote. No state is a place between groups, or the mark of an older grouper,
// which did not say.
func decodeOptions(state []byte) (*grouper.Options, error) {
	if len(state) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(state))
	decoder.DisallowUnknownFields() // an option of a newer grouper shapes the batches in a way that this one does not know
	var o grouper.Options
	if err := decoder.Decode(&o); err != nil {
		return nil, fmt.Errorf("reading the settings %.512q of an open group (a newer grouper may have begun it): %w", state, err)
	}
	return &o, nil
}

// Input implements [stream.Stage].
func (s *stage) Input() schemas.Topic { return s.core.Needs() }

// Waiting says what the lane's next record has to be.
func (s *stage) Waiting() string { return s.core.WaitsFor() }

// Forgoes implements [stream.Forgoer]: features are not made when an operator has skipped a batch, or they themselves.
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
		options, err := encodeOptions(s.core.Options())
		if err != nil {
			return err
		}
		s.start = out.Before(rec, options)
	}
	defer s.instruments.Batch()()
	if g, ok := value.(*schemas.Group); ok {
		s.instruments.PairsIn(int(g.Count))
		s.manifest = rec
	}
	err = s.core.Add(ctx, grouper.Input{Record: value, Value: rec.Value, Seq: rec.Seq}, func(made schemas.Record) error {
		if b, ok := made.(*schemas.Batch); ok {
			s.instruments.PairsOut(len(b.Samples))
		}
		return out.Emit(schemas.Batches, made, s.resume(made, rec, out))
	})
	var aside *grouper.SetAsideError
	switch {
	case errors.As(err, &aside):
		return out.DeadLetter(s.manifest, err.Error())
	case errors.Is(err, grouper.ErrUnexpected):
		return stream.Poison(err)
	}
	return err
}

// resume returns the start of the group, or, once nothing of it remains to be made, the place after it. A lane that
// holds a record of a later group goes back to before it.
func (s *stage) resume(made schemas.Record, rec stream.Record, out stream.Output) stream.Mark {
	switch b := made.(type) {
	case *schemas.Batch:
		if !s.core.Ends(b) {
			return s.start
		}
	case *schemas.Seal:
		if !s.core.BetweenGroups() {
			return s.start
		}
	}
	return out.After(rec, nil)
}

// Close implements [io.Closer].
func (s *stage) Close() error { return s.spool.Clear() }

// Flush implements [stream.Stage]; nothing is held back.
func (s *stage) Flush(context.Context, stream.Output) error { return nil }
