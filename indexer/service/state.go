package service

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/account"
)

// state is what a mark of the indexer says besides positions: the number of the lane's next group, and the rest as JSON,
// for a new owner and for people. Marks of older indexers have the number alone.
type state struct {
	next int64
	more more
}

type more struct {
	From    int64           `json:"from,omitempty"`    // seq of the first embedding of the next group; those before it fill the window
	Final   bool            `json:"final,omitempty"`   // a final seal came before
	Seals   []string        `json:"seals,omitempty"`   // ids of the latest seals
	Tally   *account.Tally  `json:"tally,omitempty"`   // of the records before From; absent: an older indexer wrote this
	Closed  *closed         `json:"closed,omitempty"`  // the lane's latest groups that have segments; absent: none has
	Options json.RawMessage `json:"options,omitempty"` // that the open group was begun with; absent between groups
}

// encode writes the state of a mark. Without options it is that of a place between groups.
func (s state) encode(o *indexer.Options) ([]byte, error) {
	if o != nil {
		shaping := *o
		shaping.Threads = 0
		var err error
		if s.more.Options, err = json.Marshal(shaping); err != nil {
			return nil, fmt.Errorf("encoding the options of a group: %w", err)
		}
	}
	rest, err := json.Marshal(s.more)
	if err != nil {
		return nil, fmt.Errorf("encoding the indexer's state: %w", err)
	}
	return append(binary.AppendUvarint(nil, uint64(s.next)), rest...), nil
}

// parseState reads what encode wrote; no state is the start of the lane.
func parseState(raw []byte) (state, error) {
	if len(raw) == 0 {
		return state{}, nil
	}
	next, n := binary.Uvarint(raw)
	if n <= 0 {
		return state{}, fmt.Errorf("reading the indexer's state %x: want a group number", raw)
	}
	s := state{next: int64(next)}
	if len(raw) > n {
		if err := json.Unmarshal(raw[n:], &s.more); err != nil {
			return state{}, fmt.Errorf("reading the indexer's state %.512q: %w", raw, err)
		}
	}
	return s, nil
}

// options reads the options that the open group was begun with; nil between groups.
func (s state) options() (*indexer.Options, error) {
	if s.more.Options == nil {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(s.more.Options))
	decoder.DisallowUnknownFields() // an option of a newer indexer shapes the records in a way that this one does not know
	var o indexer.Options
	if err := decoder.Decode(&o); err != nil {
		return nil, fmt.Errorf("reading the settings %.512q of an open group (a newer indexer may have begun it): %w", s.more.Options, err)
	}
	return &o, nil
}

// tally returns the counts before the mark's place. Those of an older indexer begin there.
func (s state) tally() account.Tally {
	if s.more.Tally == nil {
		return account.Tally{Since: s.more.From}
	}
	return s.more.Tally.Clone()
}
