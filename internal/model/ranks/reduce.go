package ranks

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Exchange adds up vectors that all ranks have. The package's own sends them over TCP, package nccl has one for GPUs.
// Each adds in the same order: along the tree of treeSum, and without the ranks that have no vector.
type Exchange interface {
	// AllReduce turns vectors into the sums of the vectors of all ranks, the same bits on each. All vectors of the plan
	// are there; those that this rank does not have itself are room for the sum.
	AllReduce(ctx context.Context, p Plan, vectors [][]float32) error
	// Close ends the exchange. No sum is made any more.
	Close() error
}

// Transport makes an exchange for each group of ranks.
type Transport interface {
	// NewID returns what rank 0 gives to all ranks, over connections that nobody else hears.
	NewID() ([]byte, error)
	// Open joins the other ranks. It returns when all have called it, or ctx ends.
	Open(ctx context.Context, id []byte, rank, world int) (Exchange, error)
}

const (
	// chunkFloats is the number of values that travel at once.
	chunkFloats = 1 << 16
	// ahead is the number of chunks that a rank sends to an owner before it has the owner's sum of the first of them. So
	// no link ever holds more, and no rank has to stop reading.
	ahead = 8
)

// mesh is an exchange over links from each rank to each. It is a reduce-scatter and an all-gather: every rank owns a
// slice, gets all others' shares of it, adds them, and sends the sum to all. A rank sends and receives 2 (R - 1) / R of
// the vectors.
type mesh struct{ *group }

// AllReduce implements Exchange.
func (m mesh) AllReduce(ctx context.Context, p Plan, vectors [][]float32) error {
	working, running := errgroup.WithContext(ctx)
	working.Go(func() error { return m.own(running, p, vectors) })
	for _, one := range m.others() {
		working.Go(func() error { return m.trade(running, one, p, vectors) })
	}
	return working.Wait()
}

// Close implements Exchange. The links belong to the group.
func (m mesh) Close() error { return nil }

// own adds up the slice that this rank owns.
func (m mesh) own(ctx context.Context, p Plan, vectors [][]float32) error {
	for _, c := range p.slice(m.rank) {
		shares := make([][]float32, m.World())
		shares[m.rank] = c.take(vectors, func(vector int) bool { return p.OfRank(m.rank, vector) })
		for _, one := range m.others() {
			raw, err := from(ctx, one, one.pieces)
			if err != nil {
				return err
			}
			if shares[one.rank], err = floats(raw, p.floats(c, one.rank)); err != nil {
				return fmt.Errorf("rank %d: %w", one.rank, err)
			}
		}
		sum := p.add(c, shares)
		c.put(vectors, sum)
		raw := bytesOf(sum)
		for _, one := range m.others() {
			if err := one.send(kindSum, raw); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds the shares of a chunk, by rank, segment by segment.
func (p Plan) add(c chunk, shares [][]float32) []float32 {
	var sum []float32
	for _, s := range c {
		n, values := s.to-s.from, make([][]float32, len(shares))
		for rank := range shares {
			if p.OfRank(rank, s.vector) {
				values[rank], shares[rank] = shares[rank][:n], shares[rank][n:]
			}
		}
		sum = append(sum, treeSum(values)...)
	}
	return sum
}

// trade sends an owner this rank's share of its slice, and takes the sum.
func (m mesh) trade(ctx context.Context, owner *link, p Plan, vectors [][]float32) error {
	chunks := p.slice(owner.rank)
	for k := range len(chunks) + ahead {
		if k >= ahead && k-ahead < len(chunks) {
			c := chunks[k-ahead]
			raw, err := from(ctx, owner, owner.sums)
			if err != nil {
				return err
			}
			sum, err := floats(raw, c.size())
			if err != nil {
				return fmt.Errorf("rank %d: %w", owner.rank, err)
			}
			c.put(vectors, sum)
		}
		if k < len(chunks) {
			share := chunks[k].take(vectors, func(vector int) bool { return p.OfRank(m.rank, vector) })
			if err := owner.send(kindPiece, bytesOf(share)); err != nil {
				return err
			}
		}
	}
	return nil
}

// size returns the number of values of the sum of a chunk.
func (c chunk) size() (n int) {
	for _, s := range c {
		n += s.to - s.from
	}
	return n
}

// take returns the values of a chunk, of the vectors that has names.
func (c chunk) take(vectors [][]float32, has func(vector int) bool) []float32 {
	values := make([]float32, 0, c.size())
	for _, s := range c {
		if has(s.vector) {
			values = append(values, vectors[s.vector][s.from:s.to]...)
		}
	}
	return values
}

// put puts the values of a chunk back into their vectors.
func (c chunk) put(vectors [][]float32, values []float32) {
	for _, s := range c {
		values = values[copy(vectors[s.vector][s.from:s.to], values):]
	}
}

// treeSum adds along a binary tree: 0 and 1, 2 and 3, then both sums. It passes over nil, and may overwrite the values.
func treeSum(values [][]float32) []float32 {
	for width := 1; width < len(values); width *= 2 {
		for i := 0; i+width < len(values); i += 2 * width {
			left, right := values[i], values[i+width]
			switch {
			case left == nil:
				values[i] = right
			case right != nil:
				for k := range left {
					left[k] += right[k]
				}
			}
		}
	}
	return values[0]
}

func bytesOf(values []float32) []byte {
	raw := make([]byte, 4*len(values))
	for i, v := range values {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
	}
	return raw
}

func floats(raw []byte, n int) ([]float32, error) {
	if len(raw) != 4*n {
		return nil, fmt.Errorf("a chunk has %d bytes, want %d", len(raw), 4*n)
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return values, nil
}

// Plan says what all ranks add up. It is equal on all ranks.
type Plan struct {
	World   int
	Lengths []int  // of the vectors of the sum; -1: no rank has this one
	Has     []byte // bit vector*World + rank says whether the rank has the vector
}

const (
	maxVectors = 1 << 20
	maxFloats  = 1 << 36 // of all vectors of a sum
)

// OfRank says whether a rank has a vector. One that has none is passed over: no zero takes its place.
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

// bounded says whether the plan is within its bounds.
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

// check says why a plan of rank 0 does not fit what this rank has.
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

// chunk is what travels at once: runs of values that follow one another.
type chunk []segment

// slice cuts what an owner adds up into chunks. The vectors follow one another, without those that nobody has, and each
// rank owns as many values of them, but for a remainder of one.
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

// floats returns the number of values that a rank has of a chunk.
func (p Plan) floats(c chunk, rank int) (n int) {
	for _, s := range c {
		if p.OfRank(rank, s.vector) {
			n += s.to - s.from
		}
	}
	return n
}
