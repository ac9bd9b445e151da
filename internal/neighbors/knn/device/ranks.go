package device

import (
	"context"
	"math"

	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/internal/neighbors/knn"
)

// ranks counts, for every text and each V2V neighbour of its image, the images that the text scores above that
// neighbour. The neighbour is in the text's T2V_k2 if they are fewer than k2.
type ranks struct {
	v, t    *matrix
	a       arithmetic
	k1, k2  int
	workers int
	e       *Engine

	v2v    []int32
	scores []float64 // of text i and its m-th neighbour
	within []int32   // images above it among those whose values are within eps of it, counted here

	// These are on the device, [members, k1]. A value below low is surely below a neighbour's score, and one above high
	// surely above it. above counts the images that are surely above. Once it reaches k2, low and high are +inf, and
	// counting stops.
	low, high, above *torch.Tensor
}

// newRanks scores the neighbours and sends the bounds to the device.
func newRanks(ctx context.Context, e *Engine, v, t *matrix, a arithmetic, p knn.Params, v2v []int32) (_ *ranks, err error) {
	r := &ranks{
		v: v, t: t, a: a, k1: p.K1, k2: p.K2, workers: p.Threads, e: e,
		v2v: v2v, scores: make([]float64, len(v2v)), within: make([]int32, len(v2v)),
	}
	defer func() {
		if err != nil {
			r.free()
		}
	}()
	err = e.worker.Do(ctx, func(s *torch.Scope) error {
		n, k1 := int64(t.Rows), int64(p.K1)
		r.low, r.high = s.Keep(s.Zeros(torch.Float32, n, k1)), s.Keep(s.Zeros(torch.Float32, n, k1))
		r.above = s.Keep(s.Zeros(torch.Int64, n, k1))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, b := range blocks(t.Rows, e.o.Columns) {
		if err := r.score(ctx, b); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *ranks) free() {
	r.low.Free()
	r.high.Free()
	r.above.Free()
}

// score computes the scores of a block of texts, and sets the device's bounds.
func (r *ranks) score(ctx context.Context, texts block) error {
	low, high := make([]float32, texts.n*int64(r.k1)), make([]float32, texts.n*int64(r.k1))
	chunks := blocks(int(texts.n), lineChunk)
	err := knn.Spread(ctx, knn.Workers(r.workers, len(chunks)), len(chunks), func(_, c int) error {
		images, own := newReader(r.v.Matrix), newReader(r.t.Matrix)
		for i := chunks[c].from; i < chunks[c].from+chunks[c].n; i++ {
			text := own.row(int(texts.from + i))
			for m := range r.k1 {
				at, here := int(texts.from+i)*r.k1+m, int(i)*r.k1+m
				low[here], high[here] = float32(math.Inf(1)), float32(math.Inf(1))
				if j := r.v2v[at]; j >= 0 {
					r.scores[at] = knn.Score(images.row(int(j)), text)
					low[here], high[here] = r.bounds(at)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return r.e.worker.Do(ctx, func(s *torch.Scope) error {
		s.Narrow(r.low, 0, texts.from, texts.n).SetFloat32s(low)
		s.Narrow(r.high, 0, texts.from, texts.n).SetFloat32s(high)
		return nil
	})
}

// bounds returns the values around a neighbour's score. A value below low is surely below the score, and one above high
// surely above.
func (r *ranks) bounds(at int) (low, high float32) {
	return below(r.scores[at] - r.a.eps), above(r.scores[at] + r.a.eps)
}

// count processes the columns of a tile of V T^T.
func (r *ranks) count(s *torch.Scope, t *tile, submit func(job) error) error {
	side := t.byColumn(s, r.e.limit())
	low, high, sums := r.part(s, r.low, t), r.part(s, r.high, t), r.part(s, r.above, t)
	r.settle(s, side, low, high, sums)
	lowest := s.Neg(s.Max(s.Neg(low), 1))
	return side.each(s, lowest, func(s *torch.Scope, h hits) error {
		lines, values := s.Sub(h.lines, number(s, t.columns.from)), s.Unsqueeze(h.values, 1)
		surely := s.Gt(values, s.IndexSelect(high, 0, lines))
		r.add(s, sums, lines, surely)
		open := s.And(s.Ge(values, s.IndexSelect(low, 0, lines)), s.Not(surely))
		index := s.Select(s.NonZero(s.Sum(open, 1, false)), 1, 0)
		if index.Size(0) == 0 {
			return nil
		}
		f := h.only(s, index).pull()
		return submit(func(ctx context.Context) error { return r.decide(ctx, f, t.columns) })
	})
}

// add counts the true values in surely [hits, k1]. It adds single numbers in memory, because libtorch would add whole
// rows a thousand times slower on the processor.
func (r *ranks) add(s *torch.Scope, sums, lines, surely *torch.Tensor) {
	found := s.NonZero(surely)
	line := s.IndexSelect(lines, 0, s.Select(found, 1, 0))
	at := s.Add(s.Mul(line, number(s, int64(r.k1))), s.Select(found, 1, 1))
	s.Reshape(sums, -1).IndexAdd(0, at, s.Full(1, torch.Int64, found.Size(0)))
}

// part returns a tensor's rows for the columns of a tile; writing to it changes the tensor.
func (r *ranks) part(s *torch.Scope, of *torch.Tensor, t *tile) *torch.Tensor {
	return s.Narrow(of, 0, t.columns.from, t.columns.n)
}

// settle drops neighbours that already have k2 images above them. It counts one image of each group whose maximum is
// surely above. So few products of a tile are examined one by one, even in the first tiles.
func (r *ranks) settle(s *torch.Scope, side *side, low, high, sums *torch.Tensor) {
	var groups []*torch.Tensor
	for m := range r.k1 {
		groups = append(groups, s.Sum(s.Gt(side.maxima, s.Narrow(high, 1, int64(m), 1)), 1, true))
	}
	atLeast := s.Add(sums, s.Cat(1, groups...))
	behind := s.Ge(atLeast, number(s, int64(r.k2)))
	sums.CopyFrom(s.Where(behind, atLeast, sums))
	low.CopyFrom(s.MaskedFill(low, behind, math.Inf(1)))
	high.CopyFrom(s.MaskedFill(high, behind, math.Inf(1)))
}

// decide scores images whose values the bound leaves open, and counts those that precede a text's neighbours.
func (r *ranks) decide(ctx context.Context, f found, texts block) error {
	order, starts := f.byLine(texts)
	chunks := blocks(int(texts.n), lineChunk)
	return knn.Spread(ctx, knn.Workers(r.workers, len(chunks)), len(chunks), func(_, c int) error {
		images, own := newReader(r.v.Matrix), newReader(r.t.Matrix)
		for line := chunks[c].from; line < chunks[c].from+chunks[c].n; line++ {
			of := order[starts[line]:starts[line+1]]
			if len(of) == 0 {
				continue
			}
			text := own.row(int(texts.from + line))
			for _, at := range of {
				image := f.places[at]
				score := knn.Score(images.row(int(image)), text)
				if err := r.a.verify(image, texts.from+line, f.values[at], score); err != nil {
					return err
				}
				r.place(texts.from+line, int32(image), f.values[at], score)
			}
		}
		return nil
	})
}

// place adds an image to the counts of the neighbours that it precedes, unless the device has done so. Ties go to the
// lower position.
func (r *ranks) place(text int64, image int32, value float32, score float64) {
	for m := range r.k1 {
		at := int(text)*r.k1 + m
		if r.v2v[at] < 0 {
			continue
		}
		low, high := r.bounds(at)
		if value < low || value > high {
			continue
		}
		if score > r.scores[at] || (score == r.scores[at] && image < r.v2v[at]) {
			r.within[at]++
		}
	}
}

// write keeps, in se, the neighbours that are in their texts' T2V_k2.
func (r *ranks) write(ctx context.Context, se []int32) error {
	for _, b := range blocks(r.t.Rows, r.e.o.Columns) {
		var above []int64
		err := r.e.worker.Do(ctx, func(s *torch.Scope) error {
			above = s.Narrow(r.above, 0, b.from, b.n).Int64s()
			return nil
		})
		if err != nil {
			return err
		}
		for i := range b.n {
			first := int(b.from+i) * r.k1
			row := se[first : first : first+r.k1]
			for m := range r.k1 {
				if at := first + m; r.v2v[at] >= 0 && above[int(i)*r.k1+m]+int64(r.within[at]) < int64(r.k2) {
					row = append(row, r.v2v[at])
				}
			}
			for len(row) < r.k1 {
				row = append(row, -1)
			}
		}
	}
	return nil
}
