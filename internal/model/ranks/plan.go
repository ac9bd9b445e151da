package ranks

import (
	"fmt"
	"slices"
)

// Plan describes a sum over all ranks. It is equal on all ranks.
type Plan struct {
	World   int
	Lengths []int  // of the vectors of the sum; -1: no rank has this one
	Has     []byte // bit vector*World + rank says whether the rank has the vector
}

// OfRank reports whether a rank has a vector. A rank without it is skipped, not replaced by zeros.
func (p Plan) OfRank(rank, vector int) bool {
	bit := vector*p.World + rank
	return p.Has[bit/8]&(1<<(bit%8)) != 0
}

// Total returns the number of values of all vectors.
func (p Plan) Total() (n int) {
	for _, length := range p.Lengths {
		n += max(length, 0)
	}
	return n
}

const (
	maxVectors = 1 << 20
	maxFloats  = 1 << 36 // of all vectors of a sum
)

// planOf checks that the ranks have the same vectors, and returns the plan of the sum.
func planOf(shapes []shape) (Plan, error) {
	p := Plan{World: len(shapes), Lengths: slices.Clone(shapes[0].Lengths)}
	p.Has = make([]byte, (len(p.Lengths)*p.World+7)/8)
	for rank, s := range shapes {
		if len(s.Lengths) != len(p.Lengths) {
			return p, fmt.Errorf("rank %d has %d vectors, rank 0 has %d: want the same model on all ranks", rank, len(s.Lengths), len(p.Lengths))
		}
		for i, n := range s.Lengths {
			if n < 0 {
				continue
			}
			if p.Lengths[i] >= 0 && n != p.Lengths[i] {
				return p, fmt.Errorf("vector %d has %d values on rank %d and %d on a rank before: want the same model on all ranks", i, n, rank, p.Lengths[i])
			}
			p.Lengths[i] = n
			bit := i*p.World + rank
			p.Has[bit/8] |= 1 << (bit % 8)
		}
	}
	return p, p.bounded()
}

// bounded reports whether the plan is within its bounds.
func (p Plan) bounded() error {
	if len(p.Lengths) > maxVectors {
		return fmt.Errorf("a sum has %d vectors, want at most %d", len(p.Lengths), maxVectors)
	}
	total := 0
	for i, n := range p.Lengths {
		if n < -1 || n > maxFloats-total {
			return fmt.Errorf("vector %d of a sum has %d values, want at most %d for all of them", i, n, maxFloats)
		}
		total += max(n, 0)
	}
	return nil
}

// check returns why a plan of rank 0 does not fit this rank's part.
func (p Plan) check(world, rank int, own shape) error {
	if p.World != world || len(p.Lengths) != len(own.Lengths) {
		return fmt.Errorf("rank 0 sums up %d vectors of %d ranks, rank %d of %d has %d: want the same model on all ranks", len(p.Lengths), p.World, rank, world, len(own.Lengths))
	}
	if err := p.bounded(); err != nil {
		return err
	}
	if len(p.Has) != (len(p.Lengths)*p.World+7)/8 {
		return fmt.Errorf("rank 0 says in %d bytes who has which vectors, want %d", len(p.Has), (len(p.Lengths)*p.World+7)/8)
	}
	for i, n := range own.Lengths {
		if p.OfRank(rank, i) != (n >= 0) || n >= 0 && n != p.Lengths[i] {
			return fmt.Errorf("rank 0 sums up %d values of vector %d, rank %d has %d: want the same model on all ranks", p.Lengths[i], i, rank, n)
		}
	}
	return nil
}

// segment is a run of values of a vector.
type segment struct{ vector, from, to int }

// chunk is a message of a sum: consecutive runs of values.
type chunk []segment

// slice cuts an owner's part into chunks. The vectors are concatenated, without those that no rank has, and each rank
// owns the same number of values, except for a remainder of one.
func (p Plan) slice(owner int) (chunks []chunk) {
	total := p.Total()
	from, to := total/p.World*owner+min(owner, total%p.World), total/p.World*(owner+1)+min(owner+1, total%p.World)
	room, at := 0, 0 // at: where the vector begins among all values
	for i, n := range p.Lengths {
		for low, high := max(from-at, 0), min(to-at, n); low < high; {
			if room == 0 {
				chunks, room = append(chunks, nil), chunkFloats
			}
			take := min(room, high-low)
			chunks[len(chunks)-1] = append(chunks[len(chunks)-1], segment{i, low, low + take})
			low, room = low+take, room-take
		}
		at += max(n, 0)
	}
	return chunks
}

// floats returns the number of values of a chunk that a rank has.
func (p Plan) floats(c chunk, rank int) (n int) {
	for _, s := range c {
		if p.OfRank(rank, s.vector) {
			n += s.to - s.from
		}
	}
	return n
}
