package discriminator

import (
	"context"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
)

// Kept holds the scores of a lane's pairs, and the encodings of their images and texts, from one epoch to the next. It
// is for images that are not augmented: a pair's score is then the same in every epoch (MAFA scores augmented ones).
// Every group has its own, as the same image may be read from elsewhere there. It is not safe for concurrent use.
type Kept struct {
	scores  generations[keptPair, float32]
	vectors generations[keptHalf, []float32]
	tokens  generations[keptHalf, []uint16]

	counts Counts
}

// Counts counts the pairs that a [Kept] was asked about, each once per batch, by their outcome.
type Counts struct {
	Kept     int64 // had a score
	Computed int64 // were scored
	RuledOut int64 // were ruled out by a [Bound]
}

// keptPair is an image and a text, by their hash, in a group.
type keptPair struct {
	group int64 // of the lane
	pair  schemas.PairID
}

// keptHalf is an image or a text in a group.
type keptHalf struct {
	group int64
	image schemas.ImageID
	text  string
}

// halfBytes estimates the memory of a key and its map entry.
const halfBytes = 150

// NewKept returns a cache for up to the given number of scores (at least 2, about 50 bytes each) and bytes of
// encodings. When full it drops its older half.
func NewKept(scores int, bytes int64) *Kept {
	return &Kept{
		scores:  generations[keptPair, float32]{most: int64(scores) / 2, weight: func(float32) int64 { return 1 }},
		vectors: generations[keptHalf, []float32]{most: bytes / 4, weight: func(v []float32) int64 { return halfBytes + 4*int64(len(v)) }},
		tokens:  generations[keptHalf, []uint16]{most: bytes / 4, weight: func(v []uint16) int64 { return halfBytes + 2*int64(len(v)) }},
	}
}

// Counts returns the counts so far.
func (k *Kept) Counts() Counts { return k.counts }

// generations is a cache of two halves. It drops the entries that were not used while the younger half filled.
type generations[K comparable, V any] struct {
	most       int64 // weight of either half
	weight     func(V) int64
	used       int64 // of the younger half
	young, old map[K]V
}

func (g *generations[K, V]) get(key K) (V, bool) {
	v, found := g.young[key]
	if !found {
		if v, found = g.old[key]; found {
			g.put(key, v) // it is in use
		}
	}
	return v, found
}

func (g *generations[K, V]) put(key K, v V) {
	if g.young == nil || g.used >= g.most {
		g.young, g.old, g.used = map[K]V{}, g.young, 0
	}
	if _, there := g.young[key]; !there {
		g.used += g.weight(v)
	}
	g.young[key] = v
}

// keptBatch is a batch that is scored with the help of a [Kept].
type keptBatch struct {
	*Discriminator
	batch         *schemas.Batch
	in            Input
	edits         editedTexts
	images, texts half
}

// editedTexts are further texts of a batch, behind those of its samples.
type editedTexts struct {
	texts []string
	ids   [][]int32
}

// check verifies the sizes of an input with [Input.Kept].
func (k *keptBatch) check() error {
	n, side := len(k.batch.Samples), k.matcher.Config.ImageSize
	switch {
	case len(k.in.IDs) != n:
		return fmt.Errorf("%w: %d texts for %d samples", model.ErrInput, len(k.in.IDs), n)
	case len(k.in.Pixels) != 3*side*side*n:
		return fmt.Errorf("%w: %d pixel values for %d images of %d x %d", model.ErrInput, len(k.in.Pixels), n, side, side)
	case k.in.Held != nil && len(k.in.Held) != n:
		return fmt.Errorf("%w: %d held images for %d samples", model.ErrInput, len(k.in.Held), n)
	}
	return nil
}

// matchKept asks Con-D about the pairs that the bound does not rule out and whose scores are not cached. It encodes the
// images and texts that are not cached.
func (d *Discriminator) matchKept(ctx context.Context, b *schemas.Batch, in Input, pairs []model.Pair) (answers, error) {
	k := newKeptBatch(d, b, in, editedTexts{})
	if err := k.check(); err != nil {
		return answers{}, err
	}
	out := answers{probabilities: make([]float32, len(pairs)), ruledOut: make([]bool, len(pairs))}
	similarities, err := k.similarities(ctx, pairs)
	if err != nil {
		return out, err
	}
	var open []int
	for i := range pairs {
		if out.ruledOut[i] = similarities != nil && in.Bound.rulesOut(similarities[i]); !out.ruledOut[i] {
			open = append(open, i)
		}
	}
	computed, err := k.scores(ctx, pairs, open, out.probabilities)
	if err != nil {
		return out, err
	}
	if similarities != nil {
		in.Bound.learn(similarities, out.probabilities)
	}
	in.Kept.counts.add(Counts{Kept: int64(len(open) - computed), Computed: int64(computed), RuledOut: int64(len(pairs) - len(open))})
	return out, nil
}

// scores looks up the scores of chosen pairs, and computes those that are not kept.
func (k *keptBatch) scores(ctx context.Context, pairs []model.Pair, chosen []int, scores []float32) (computed int, err error) {
	var fresh []int
	for _, i := range chosen {
		score, found := k.in.Kept.scores.get(k.key(pairs[i]))
		if !found {
			fresh = append(fresh, i)
		}
		scores[i] = score
	}
	return len(fresh), k.ask(ctx, pairs, fresh, scores)
}

// matchKnown asks Con-D about the pairs of questions, whatever its vectors say of them. selected tells which of the
// pairs of known truth would have been candidates.
func (d *Discriminator) matchKnown(ctx context.Context, b *schemas.Batch, in Input, q Questions, edits editedTexts) (scores []float32, selected func(int) bool, err error) {
	k := newKeptBatch(d, b, in, edits)
	if err := k.check(); err != nil {
		return nil, nil, err
	}
	all := make([]int, len(q.pairs))
	for i := range all {
		all[i] = i
	}
	scores = make([]float32, len(q.pairs))
	if _, err := k.scores(ctx, q.pairs, all, scores); err != nil {
		return nil, nil, err
	}
	selected, err = k.selection(ctx, q)
	return scores, selected, err
}

func (c *Counts) add(o Counts) {
	c.Kept, c.Computed, c.RuledOut = c.Kept+o.Kept, c.Computed+o.Computed, c.RuledOut+o.RuledOut
}

func (k *keptBatch) key(p model.Pair) keptPair {
	return keptPair{k.batch.Group.Seq, schemas.NewPairID(k.batch.Samples[p.Image].ImageID, k.text(p.Text))}
}

// similarities returns those of Con-D's vectors, or nil where no bound is asked for.
func (k *keptBatch) similarities(ctx context.Context, pairs []model.Pair) ([]float32, error) {
	if k.in.Bound == nil || !k.matcher.Encodes() || len(pairs) == 0 {
		return nil, nil
	}
	images, texts := rowsOf(pairs)
	if err := k.images.needVectors(ctx, images); err != nil {
		return nil, err
	}
	if err := k.texts.needVectors(ctx, texts); err != nil {
		return nil, err
	}
	out := make([]float32, len(pairs))
	for i, p := range pairs {
		out[i] = similarity(k.images.have[p.Image].Vector, k.texts.have[p.Text].Vector)
	}
	return out, nil
}

// ask computes the scores of chosen pairs, and keeps them.
func (k *keptBatch) ask(ctx context.Context, pairs []model.Pair, chosen []int, scores []float32) error {
	if len(chosen) == 0 {
		return nil
	}
	asked := make([]model.Pair, len(chosen))
	for n, i := range chosen {
		asked[n] = pairs[i]
	}
	got, err := k.compute(ctx, asked)
	if err != nil {
		return err
	}
	for n, i := range chosen {
		scores[i] = got[n]
		if !math.IsNaN(float64(got[n])) { // the caller refuses it
			k.in.Kept.scores.put(k.key(pairs[i]), got[n])
		}
	}
	return nil
}

// compute asks Con-D about pairs, with their images and texts alone.
func (k *keptBatch) compute(ctx context.Context, asked []model.Pair) ([]float32, error) {
	images, texts := rowsOf(asked)
	local := numbered(asked, images, texts)
	if !k.matcher.Encodes() {
		return k.matcher.MatchFixed(ctx, k.pixels(images), k.ids(texts), local, k.part)
	}
	if err := k.images.needTokens(ctx, images); err != nil {
		return nil, err
	}
	if err := k.texts.needTokens(ctx, texts); err != nil {
		return nil, err
	}
	return k.matcher.MatchEncoded(ctx, k.images.of(images), k.texts.of(texts), local, k.part)
}
