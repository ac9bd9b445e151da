package trainer

import (
	"cmp"
	"slices"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// seedDropout starts dropout for a part of a step on a batch. Like the masks, dropout is the same whenever the batch is
// trained on, and whatever the other parts do.
func (t *Trainer) seedDropout(s *torch.Scope, b *schemas.ScoredBatch, part string) {
	if t.options.Dropout > 0 {
		s.Seed(rng.New(t.options.Seed, "dropout "+part, int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence)).Uint64())
	}
}

// masksOf joins the masks of a batch with those of its input, in order. Where both mask an image, the batch's reason
// counts.
func masksOf(b *schemas.ScoredBatch, in Input) []schemas.Mask {
	masks := slices.Concat(b.Masked, in.Masked)
	slices.SortStableFunc(masks, func(a, b schemas.Mask) int {
		return cmp.Or(cmp.Compare(a.Sample, b.Sample), compareBools(a.Positive, b.Positive))
	})
	return slices.CompactFunc(masks, func(a, b schemas.Mask) bool { return a.Sample == b.Sample && a.Positive == b.Positive })
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// unmasked lists the samples of n that a step learns from. A mask of a positive alone takes no sample out.
func unmasked(n int, masks []schemas.Mask) []int64 {
	gone := make([]bool, n)
	for _, m := range masks {
		gone[m.Sample] = gone[m.Sample] || !m.Positive
	}
	var kept []int64
	for i := range gone {
		if !gone[i] {
			kept = append(kept, int64(i))
		}
	}
	return kept
}

// restrict leaves the masked samples out of everything that the losses are made of. The rest is the batch as it would
// be without them.
func (f *forward) restrict(s *torch.Scope, b *schemas.ScoredBatch, x tensors, kept []int64) (*schemas.ScoredBatch, tensors) {
	if len(kept) == 0 {
		return &schemas.ScoredBatch{Batch: schemas.Batch{Group: b.Group, Epoch: b.Epoch, Sequence: b.Sequence}}, tensors{}
	}
	index := s.Int64s(kept, int64(len(kept)))
	rows := func(x *torch.Tensor) *torch.Tensor {
		if x == nil {
			return nil
		}
		return s.IndexSelect(x, 0, index)
	}
	f.tokens, f.hidden, f.image, f.text = rows(f.tokens), rows(f.hidden), rows(f.image), rows(f.text)
	x.pixels, x.second, x.positives, x.ids, x.attention = rows(x.pixels), rows(x.second), rows(x.positives), rows(x.ids), rows(x.attention)
	texts := x.texts
	x.texts = nil
	for _, i := range kept {
		x.texts = append(x.texts, texts[i])
	}
	return onlySamples(b, kept), x
}

// onlySamples returns a batch of the given samples alone. It no longer names partners and candidates that are left out,
// and the other candidates move up.
func onlySamples(b *schemas.ScoredBatch, kept []int64) *schemas.ScoredBatch {
	place := make([]int32, len(b.Samples))
	for i := range place {
		place[i] = -1
	}
	for to, from := range kept {
		place[from] = int32(to)
	}
	out := *b
	out.Masked, out.Samples = nil, nil
	for _, i := range kept {
		sample := b.Samples[i]
		sample.Partners = nil
		for _, j := range b.Samples[i].Partners {
			if place[j] >= 0 {
				sample.Partners = append(sample.Partners, place[j])
			}
		}
		out.Samples = append(out.Samples, sample)
	}
	m := int(b.M)
	candidates := func(list schemas.Int32s, probs schemas.Floats32) (schemas.Int32s, schemas.Floats32) {
		newList, newProbs := schemas.Int32s{}, schemas.Floats32{}
		for _, i := range kept {
			for k := int(i) * m; k < (int(i)+1)*m; k++ {
				if j := list[k]; j >= 0 && place[j] >= 0 {
					newList, newProbs = append(newList, place[j]), append(newProbs, probs[k])
				}
			}
			for len(newList) < (int(place[i])+1)*m {
				newList, newProbs = append(newList, -1), append(newProbs, 0)
			}
		}
		return newList, newProbs
	}
	out.I2T, out.ProbI2T = candidates(b.I2T, b.ProbI2T)
	out.T2I, out.ProbT2I = candidates(b.T2I, b.ProbT2I)
	return &out
}
