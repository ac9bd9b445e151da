package grouper

import (
	"context"
	"math/rand/v2"

	"github.com/pairstream/pairstream/schemas"
)

// batchMaker turns the mini-batches of one epoch's plan into records.
type batchMaker struct {
	options  Options
	key      Key
	members  *members
	plan     Plan
	features Features // nil when no candidates are wanted
	chosen   Chosen   // by a planner
	alpha    float64
	again    bool
	left     int64 // batches from the epoch's first to the lane's end; 0: unknown
}

func (b *batchMaker) batch(ctx context.Context, sequence int) (*schemas.Batch, error) {
	pairs := b.plan.Batch(sequence)
	out := &schemas.Batch{
		Group:    b.key.Group,
		Epoch:    int32(b.key.Epoch),
		Sequence: int32(sequence),
		Batches:  int32(b.plan.Batches()),
		Strategy: string(b.options.formedBy(b.key.Epoch)),
		Samples:  make([]schemas.Sample, len(pairs)),
		M:        int32(b.options.Candidates),
	}
	out.Again = b.again
	if b.left > 0 {
		out.Left = b.left - int64(sequence)
	}
	r := b.key.generator("positives", int64(sequence))
	for i, p := range pairs {
		out.Samples[i] = b.sample(p, r)
	}
	var image []int32
	if !b.options.SameImage {
		image = make([]int32, len(pairs))
		for i, p := range pairs {
			image[i] = b.members.image[p]
		}
		for i, partners := range Partners(image) {
			out.Samples[i].Partners = partners
		}
	}
	if b.features == nil {
		return out, nil
	}
	if b.chosen.I2T != nil {
		out.I2T, out.T2I = b.chosen.candidates(pairs, b.options.Candidates)
		return out, nil
	}
	v, t := read(b.features, pairs)
	var err error
	out.I2T, out.T2I, err = HardCandidates(ctx, v, t, image, b.options.Candidates)
	return out, err
}

func (b *batchMaker) sample(p int32, r *rand.Rand) schemas.Sample {
	m := b.members
	s := schemas.Sample{
		ID:       m.ids[p],
		ImageID:  m.imageIDs[p],
		Image:    m.ref(p),
		Text:     m.captions[p],
		Position: p,
		Positive: m.positive(p, r),
	}
	if Replaced(float64(m.similarity[p]), b.alpha) {
		if text := objectText(m.objects(p), m.manifest.Nouns); text != "" {
			s.Text, s.Replaced = text, true
		}
	}
	return s
}

// positive draws one of the images equivalent to a pair's (GPN-S section 3.3.2): each member of SE has the same chance,
// and so has each equivalent image of another group. Those that show the pair's own image would say nothing. Without
// any there is no positive, and the trainer augments the image itself.
func (m *members) positive(p int32, r *rand.Rand) *schemas.Positive {
	others := make([]int32, 0, m.manifest.K1)
	for _, j := range m.equivalents(p) {
		if m.image[j] != m.image[p] {
			others = append(others, j)
		}
	}
	far := m.outside.of(p, m.imageIDs[p])
	if len(others)+len(far) == 0 {
		return nil
	}
	at := r.IntN(len(others) + len(far))
	if at >= len(others) {
		return m.outside.at(far[at-len(others)])
	}
	j := others[at]
	return &schemas.Positive{ImageID: m.imageIDs[j], Image: m.ref(j)}
}

// Partners lists for each sample of a mini-batch the others that show the same image, in ascending order; image[i]
// numbers the image of sample i.
func Partners(image []int32) []schemas.Int32s {
	samples := make(map[int32][]int32, len(image))
	for i, n := range image {
		samples[n] = append(samples[n], int32(i))
	}
	out := make([]schemas.Int32s, len(image))
	for i, n := range image {
		for _, j := range samples[n] {
			if j != int32(i) {
				out[i] = append(out[i], j)
			}
		}
	}
	return out
}
