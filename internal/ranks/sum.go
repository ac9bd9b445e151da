package ranks

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// chunkFloats is the number of values that travel at once.
const chunkFloats = 1 << 18

// Part is what a rank contributes to a sum, or the sum itself.
type Part struct {
	Note    []byte
	Vectors [][]float32 // nil: the rank has none, which is not the same as zeros
}

// sumHeader precedes the vectors.
type sumHeader struct {
	Lengths []int // -1: none
	Note    []byte
}

func (p Part) header() sumHeader {
	h := sumHeader{Lengths: make([]int, len(p.Vectors)), Note: p.Note}
	for i, v := range p.Vectors {
		h.Lengths[i] = -1
		if v != nil {
			h.Lengths[i] = len(v)
		}
	}
	return h
}

// Sum adds the vectors of all ranks, and gives all of them the sum. join makes the note of the sum of the notes, which are
// in the order of ranks. The vectors of own become those of the sum.
func (l *Leader) Sum(ctx context.Context, own Part, join func(notes [][]byte) ([]byte, error)) (Part, error) {
	headers := []sumHeader{own.header()}
	for _, one := range l.links {
		if err := one.send(kindAsk, nil); err != nil {
			return Part{}, err
		}
	}
	for _, one := range l.links {
		h, err := one.sumHeader(ctx)
		if err != nil {
			return Part{}, err
		}
		headers = append(headers, h)
	}
	total, err := totalHeader(headers, join)
	if err != nil {
		return Part{}, err
	}
	raw, err := json.Marshal(total)
	if err != nil {
		return Part{}, err
	}
	if err := l.sendSums(raw); err != nil {
		return Part{}, err
	}
	sum := Part{Note: total.Note, Vectors: make([][]float32, len(total.Lengths))}
	for i, n := range total.Lengths {
		if n < 0 {
			continue
		}
		if sum.Vectors[i] = own.Vectors[i]; sum.Vectors[i] == nil {
			sum.Vectors[i] = make([]float32, n)
		}
		if err := l.sumVector(ctx, headers, i, sum.Vectors[i]); err != nil {
			return Part{}, err
		}
	}
	return sum, nil
}

// sumVector adds a vector of all ranks into the leader's own, chunk by chunk.
func (l *Leader) sumVector(ctx context.Context, headers []sumHeader, i int, own []float32) error {
	for chunk := range slices.Chunk(own, chunkFloats) {
		values := make([][]float32, len(headers))
		for rank, h := range headers {
			switch {
			case h.Lengths[i] < 0:
			case rank == 0:
				values[rank] = chunk
			default:
				raw, err := from(ctx, l.links[rank-1], l.links[rank-1].sums)
				if err != nil {
					return err
				}
				if values[rank], err = floats(raw, len(chunk)); err != nil {
					return fmt.Errorf("rank %d: %w", rank, err)
				}
			}
		}
		copy(chunk, treeSum(values))
		if err := l.sendSums(bytesOf(chunk)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Leader) sendSums(payload []byte) error {
	for _, one := range l.links {
		if err := one.send(kindSum, payload); err != nil {
			return err
		}
	}
	return nil
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

// totalHeader checks that the ranks have the same vectors, and returns the header of the sum.
func totalHeader(headers []sumHeader, join func([][]byte) ([]byte, error)) (sumHeader, error) {
	total := sumHeader{Lengths: slices.Clone(headers[0].Lengths)}
	var notes [][]byte
	for rank, h := range headers {
		if len(h.Lengths) != len(total.Lengths) {
			return total, fmt.Errorf("rank %d has %d vectors, rank 0 has %d: want the same model on all ranks", rank, len(h.Lengths), len(total.Lengths))
		}
		for i, n := range h.Lengths {
			if n < 0 {
				continue
			}
			if total.Lengths[i] >= 0 && n != total.Lengths[i] {
				return total, fmt.Errorf("vector %d has %d values on rank %d and %d on a rank before: want the same model on all ranks", i, n, rank, total.Lengths[i])
			}
			total.Lengths[i] = n
		}
		notes = append(notes, h.Note)
	}
	var err error
	total.Note, err = join(notes)
	return total, err
}

// sumHeader receives the header of a sum.
func (l *link) sumHeader(ctx context.Context) (h sumHeader, err error) {
	raw, err := from(ctx, l, l.sums)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(raw, &h); err != nil {
		return h, fmt.Errorf("reading the sum of rank %d: %w", l.rank, err)
	}
	return h, nil
}

// Sum contributes to a sum of the leader's and returns the sum. It waits for the leader to ask.
func (m *Member) Sum(ctx context.Context, own Part) (Part, error) {
	if _, err := from(ctx, m.link, m.link.asks); err != nil {
		return Part{}, err
	}
	sent := make(chan error, 1)
	go func() { sent <- m.contribute(own) }()
	sum, err := m.receive(ctx, len(own.Vectors))
	if err != nil {
		m.link.failed(err) // so that contribute ends
	}
	if serr := <-sent; err == nil {
		err = serr
	}
	return sum, err
}

// contribute sends this rank's part.
func (m *Member) contribute(own Part) error {
	raw, err := json.Marshal(own.header())
	if err != nil {
		return err
	}
	if err := m.link.send(kindSum, raw); err != nil {
		return err
	}
	for _, v := range own.Vectors {
		for chunk := range slices.Chunk(v, chunkFloats) {
			if err := m.link.send(kindSum, bytesOf(chunk)); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive receives the sum.
func (m *Member) receive(ctx context.Context, vectors int) (Part, error) {
	total, err := m.link.sumHeader(ctx)
	if err != nil {
		return Part{}, err
	}
	if len(total.Lengths) != vectors {
		return Part{}, fmt.Errorf("rank 0 sums up %d vectors, this rank has %d: want the same model on all ranks", len(total.Lengths), vectors)
	}
	sum := Part{Note: total.Note, Vectors: make([][]float32, vectors)}
	for i, n := range total.Lengths {
		if n < 0 {
			continue
		}
		sum.Vectors[i] = make([]float32, 0, min(n, chunkFloats))
		for len(sum.Vectors[i]) < n {
			raw, err := from(ctx, m.link, m.link.sums)
			if err != nil {
				return Part{}, err
			}
			chunk, err := floats(raw, min(n-len(sum.Vectors[i]), chunkFloats))
			if err != nil {
				return Part{}, fmt.Errorf("rank 0: %w", err)
			}
			sum.Vectors[i] = append(sum.Vectors[i], chunk...)
		}
	}
	return sum, nil
}

func bytesOf(values []float32) []byte {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
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
