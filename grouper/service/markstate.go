package service

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pairstream/pairstream/grouper"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/schemas"
)

// state is the state of a lane in a mark: the options that the group was begun with, and the epoch that begins at the
// mark. A mark of epoch 0 lies before the group.
type state struct {
	grouper.Options
	Resume *grouper.Resume `json:",omitempty"`
}

// encodeState writes a state, for a new owner and for people.
func encodeState(o grouper.Options, at *grouper.Resume) ([]byte, error) {
	o.Workers = 0 // changes no batch
	raw, err := json.Marshal(state{o, at})
	if err != nil {
		return nil, fmt.Errorf("encoding the options of a group: %w", err)
	}
	return raw, nil
}

// decodeState reads what encodeState wrote. No state is a place between groups, or the mark of an older grouper, which
// did not say.
func decodeState(raw []byte) (*state, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields() // an option of a newer grouper shapes the batches in a way that this one does not know
	var s state
	if err := decoder.Decode(&s); err != nil {
		return nil, fmt.Errorf("reading the settings %.512q of an open group (a newer grouper may have begun it): %w", raw, err)
	}
	return &s, nil
}

// tell has a new lane go on from the state.
func (s *state) tell(core *grouper.Lane) error {
	if err := core.Finish(s.Options); err != nil || s.Resume == nil {
		return err
	}
	return core.GoOn(*s.Resume)
}

// places holds where the epochs of the open window begin in the topics that the lane reads again after a crash.
type places struct {
	window   int64                   // number of its first group
	batches  map[int]int64           // by epoch: seq of its first batch
	features map[int]stream.Position // by epoch: a position before its first features
	next     int                     // the first epoch that is not in features
}

func placesOf(window int64) places {
	return places{window: window, batches: make(map[int]int64), features: make(map[int]stream.Position)}
}

// note keeps where the epochs lie that have begun with a record.
func (p *places) note(core *grouper.Lane, rec stream.Record, out stream.Output) {
	group, epoch, ok := core.Begun()
	if !ok || group < p.window { // before the window that the lane goes on with
		return
	}
	if group > p.window {
		*p = placesOf(group)
	}
	for ; p.next <= epoch; p.next++ {
		p.begin(p.next, out.Before(rec, nil))
	}
}

// begin keeps the first known place of an epoch's features.
func (p *places) begin(epoch int, at stream.Mark) {
	if _, known := p.features[epoch]; !known {
		p.features[epoch] = at.Input(schemas.Features)
	}
}

// own keeps where a batch lies, if it is the first of its epoch in the window.
func (p *places) own(b *schemas.Batch, seq int64) {
	if b.Sequence == 0 && b.Group.Seq == p.window {
		p.batches[int(b.Epoch)] = seq
	}
}

// reach moves the mark to the start of an epoch whose first batch is about to be emitted.
func (s *stage) reach(b *schemas.Batch, rec stream.Record, out stream.Output) error {
	s.places.note(s.core, rec, out)
	if b.Sequence > 0 || b.Group.Seq != s.places.window {
		return nil
	}
	now := out.Before(rec, nil)
	seq := int64(0)
	for _, p := range now.Seqs {
		if p.Topic == schemas.Batches {
			seq = p.Seq
		}
	}
	s.places.own(b, seq)
	at, ok := s.core.Resume()
	if !ok {
		return nil // epoch 0 starts with the group
	}
	raw, err := encodeState(s.core.Options(), &at)
	if err != nil {
		return err
	}
	mark := stream.Mark{Inputs: s.start.Inputs, Seqs: now.Seqs, State: raw}
	if at.From < at.Epoch {
		features, read := s.places.features[at.From]
		batches, made := s.places.batches[at.From]
		if !read || !made {
			return fmt.Errorf("epoch %d of group %s goes back to epoch %d, whose place is not known", b.Epoch, b.Group, at.From)
		}
		mark = mark.With(schemas.Features, features).Rereading(schemas.Batches, batches)
	}
	s.mark = mark
	return nil
}
