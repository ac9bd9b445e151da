package ranks

import (
	"context"
	"encoding/json"
	"slices"
)

// Part is a rank's contribution to a sum, or the sum itself.
type Part struct {
	Note    []byte
	Vectors [][]float32 // nil: the rank has none, unlike zeros
}

// shape describes a rank's contribution.
type shape struct {
	Lengths []int // of vectors; -1: none
	Note    []byte
}

// outline is the plan of a sum with its note, in transit.
type outline struct {
	Plan Plan
	Note []byte
}

func (p Part) shape() shape {
	h := shape{Lengths: make([]int, len(p.Vectors)), Note: p.Note}
	for i, v := range p.Vectors {
		h.Lengths[i] = -1
		if v != nil {
			h.Lengths[i] = len(v)
		}
	}
	return h
}

// Sum adds the vectors of all ranks, and gives all of them the sum. join makes the note of the sum of the notes, which
// are in the order of ranks. The vectors of own become those of the sum.
func (l *Leader) Sum(ctx context.Context, own Part, join func(notes [][]byte) ([]byte, error)) (Part, error) {
	shapes := []shape{own.shape()}
	for _, one := range l.others() {
		var s shape
		if err := one.decode(ctx, one.shapes, &s); err != nil {
			return Part{}, err
		}
		shapes = append(shapes, s)
	}
	var o outline
	var err error
	if o.Plan, err = planOf(shapes); err != nil {
		return Part{}, err
	}
	notes := make([][]byte, 0, len(shapes))
	for _, s := range shapes {
		notes = append(notes, s.Note)
	}
	if o.Note, err = join(notes); err != nil {
		return Part{}, err
	}
	raw, err := json.Marshal(o)
	if err != nil {
		return Part{}, err
	}
	for _, one := range l.others() {
		if err := one.send(kindPlan, raw); err != nil {
			return Part{}, err
		}
	}
	return l.reduce(ctx, o, own)
}

// Sum contributes to a sum of the leader's and returns it. The vectors of own become those of the sum.
func (m *Member) Sum(ctx context.Context, own Part) (Part, error) {
	raw, err := json.Marshal(own.shape())
	if err != nil {
		return Part{}, err
	}
	leader := m.links[0]
	if err := leader.send(kindShape, raw); err != nil {
		return Part{}, err
	}
	var o outline
	if err := leader.decode(ctx, leader.plans, &o); err != nil {
		return Part{}, err
	}
	if err := o.Plan.check(m.World(), m.rank, own.shape()); err != nil {
		return Part{}, err
	}
	return m.reduce(ctx, o, own)
}

// reduce sums the parts of all ranks.
func (g *group) reduce(ctx context.Context, o outline, own Part) (Part, error) {
	vectors := slices.Clone(own.Vectors)
	for i, n := range o.Plan.Lengths {
		if n >= 0 && vectors[i] == nil {
			vectors[i] = make([]float32, n)
		}
	}
	if err := g.exchange.AllReduce(ctx, o.Plan, vectors); err != nil {
		return Part{}, err
	}
	return Part{Note: o.Note, Vectors: vectors}, nil
}
