// Package accounting counts the outcomes of the pairs of a lane. The indexer keeps a tally in its marks: the outcome of
// every record before a position in `embeddings`. So it is exact after any crash, and every reader of the last mark has
// it.
package accounting

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/pairstream/pairstream/schemas"
)

// Tally counts the outcomes of the records of `embeddings` from Since up to a position.
type Tally struct {
	Since      int64            `json:"since,omitempty"`      // seq; before it an older indexer did not count
	Members    int64            `json:"members"`              // of closed groups
	Duplicates int64            `json:"duplicates"`           // pairs that their group had
	Repeats    int64            `json:"repeats"`              // pairs that an earlier group had
	SameImage  int64            `json:"same_image,omitempty"` // of members or repeats: pairs whose image came before with another caption
	Near       int64            `json:"near,omitempty"`       // of members or left out: pairs whose image resembles a member's
	LeftOut    int64            `json:"left_out,omitempty"`   // near-duplicates and repeated images that are in no group
	Filtered   map[string]int64 `json:"filtered,omitempty"`   // by rule
	Refused    map[string]int64 `json:"refused,omitempty"`    // by reason
	Seals      int64            `json:"seals"`
	Others     int64            `json:"others"` // foreign records, or records after a final seal
}

// Clone returns a copy that shares nothing.
func (t Tally) Clone() Tally {
	t.Filtered, t.Refused = maps.Clone(t.Filtered), maps.Clone(t.Refused)
	return t
}

// Refuse counts a refusal.
func (t *Tally) Refuse(r *schemas.Refusal) {
	into, name := &t.Refused, r.Reason
	if r.Reason == schemas.MaskFiltered {
		into, name = &t.Filtered, r.Rule
	}
	if *into == nil {
		*into = make(map[string]int64)
	}
	(*into)[name]++
}

// Records returns how many records the tally counts.
func (t Tally) Records() int64 {
	n := t.Members + t.Duplicates + t.Repeats + t.LeftOut + t.Seals + t.Others
	for _, counts := range []map[string]int64{t.Filtered, t.Refused} {
		for _, c := range counts {
			n += c
		}
	}
	return n
}

// Add adds the counts of another lane.
func (t *Tally) Add(o Tally) {
	t.Members, t.Duplicates, t.Repeats = t.Members+o.Members, t.Duplicates+o.Duplicates, t.Repeats+o.Repeats
	t.SameImage, t.Near, t.LeftOut = t.SameImage+o.SameImage, t.Near+o.Near, t.LeftOut+o.LeftOut
	t.Since, t.Seals, t.Others = t.Since+o.Since, t.Seals+o.Seals, t.Others+o.Others
	for _, p := range []struct{ into, from *map[string]int64 }{{&t.Filtered, &o.Filtered}, {&t.Refused, &o.Refused}} {
		for name, c := range *p.from {
			if *p.into == nil {
				*p.into = make(map[string]int64)
			}
			(*p.into)[name] += c
		}
	}
}

// OfMark reads the tally from the state of a mark of the indexer, and the seq of the first record that it does not
// count. It is nil for the mark of an older indexer, and where nothing was counted.
func OfMark(state []byte) (*Tally, int64, error) {
	if len(state) == 0 {
		return nil, 0, nil
	}
	_, n := binary.Uvarint(state)
	if n <= 0 {
		return nil, 0, fmt.Errorf("reading the indexer's state %.40x: want a group number", state)
	}
	var s struct {
		From  int64  `json:"from"`
		Tally *Tally `json:"tally"`
	}
	if len(state) > n {
		if err := json.Unmarshal(state[n:], &s); err != nil {
			return nil, 0, fmt.Errorf("reading the indexer's state %.512q: %w", state, err)
		}
	}
	return s.Tally, s.From, nil
}
