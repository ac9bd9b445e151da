package ranks

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"golang.org/x/sync/errgroup"
)

// Exchange adds up the vectors of all ranks. This package's own sends them over TCP, and package nccl has one for GPUs.
// Each adds in the same order: along the tree of treeSum, without the ranks that have no vector.
type Exchange interface {
	// AllReduce turns vectors into the sums over all ranks, the same bits on each. It has all vectors of the plan;
	// those that this rank lacks are room for the sum.
	AllReduce(ctx context.Context, p Plan, vectors [][]float32) error
	// Close ends the exchange. No more sums are possible.
	Close() error
}

// Transport makes an exchange for each group of ranks.
type Transport interface {
	// NewID returns the id that rank 0 gives to all ranks, over authenticated connections.
	NewID() ([]byte, error)
	// Open joins the other ranks. It returns when all have called it, or ctx ends.
	Open(ctx context.Context, id []byte, rank, world int) (Exchange, error)
}

const (
	// chunkFloats is the number of values that travel at once.
	chunkFloats = 1 << 16
	// ahead is the number of chunks that a rank sends to an owner before it needs the owner's sum of the first. So no
	// link ever holds more, and no rank has to stop reading.
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

// trade sends an owner this rank's part of its slice, and takes the sum.
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

// take returns the values of a chunk, from the vectors marked in has.
func (c chunk) take(vectors [][]float32, has func(vector int) bool) []float32 {
	values := make([]float32, 0, c.size())
	for _, s := range c {
		if has(s.vector) {
			values = append(values, vectors[s.vector][s.from:s.to]...)
		}
	}
	return values
}

// put stores the values of a chunk in their vectors.
func (c chunk) put(vectors [][]float32, values []float32) {
	for _, s := range c {
		values = values[copy(vectors[s.vector][s.from:s.to], values):]
	}
}

// treeSum adds along a binary tree: 0 and 1, 2 and 3, then both sums. It skips nil, and may overwrite the values.
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
