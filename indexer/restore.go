package indexer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/schemas"
)

// Restored is a group that was closed before this process began. It is filled from the log, and then found by searches.
type Restored struct {
	live    *Live
	members *members
	ids     []schemas.PairID // of the members that are missing
}

// Restore begins a group with the ids of its members, in their order. Done or Cancel must follow.
func (l *Live) Restore(group schemas.GroupID, model string, dim int, ids []schemas.PairID) (*Restored, error) {
	m, err := newMembers(group, model, len(ids), dim)
	if err != nil {
		return nil, err
	}
	return &Restored{live: l, members: m, ids: ids}, nil
}

// Add takes the group's embeddings in the order of the log. It passes over those that are no members: duplicates, and
// repetitions of earlier groups.
func (r *Restored) Add(e *schemas.Embedding) error {
	if len(r.ids) == 0 || e.ID != r.ids[0] {
		return nil
	}
	if e.Model != r.members.model || len(e.V) != 2*r.members.dim || len(e.T) != 2*r.members.dim {
		return fmt.Errorf("pair %s is of another model than group %s", e.ID, r.members.group)
	}
	r.ids = r.ids[1:]
	return r.members.add(e)
}

// Pairs returns how many members are there.
func (r *Restored) Pairs() int { return r.members.v.Len() }

// Done lets searches find the group, unless newer groups of its lane have taken its place. A group that is not complete
// stays out.
func (r *Restored) Done() error {
	if len(r.ids) > 0 {
		return errors.Join(fmt.Errorf("%d members of group %s are not in the log", len(r.ids), r.members.group), r.Cancel())
	}
	l, m := r.live, r.members
	l.mu.Lock()
	newer := 0
	for _, g := range l.groups {
		if g.closed && g.group.Lane == m.group.Lane {
			newer++
		}
	}
	if newer < l.o.KeepGroups {
		m.retain()
		g := &liveGroup{members: m, closed: true, sides: map[string]*side{Image: {}, Text: {}}}
		l.groups = slices.Concat([]*liveGroup{g}, l.groups) // searches may still read the old list
	}
	l.mu.Unlock()
	l.rouse()
	return m.release()
}

// Cancel gives the group up.
func (r *Restored) Cancel() error { return r.members.release() }

// Keeps returns how many closed groups of a lane are kept.
func (l *Live) Keeps() int { return l.o.KeepGroups }
