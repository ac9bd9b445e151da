// Package discriminator is the core of the discriminating stage: Con-D, the model that tells false negatives from true
// ones (MAFA section 4.1).
//
// In comes a [schemas.Batch] with the pixels and token ids of its samples, out goes the [schemas.ScoredBatch]: the
// batch itself and, for every candidate of either direction, the probability that Con-D gives to a match.
//
// Invariants:
//
//  1. A probability is a function of Con-D's weights and the pair, to the last bit on a CPU. Every image and text is
//     encoded once, and pairs go through the fusion encoder in parts of one fixed size, so neither the other
//     candidates nor the pair's position affect its value. Only the length to which the batch's texts are padded may
//     move it, by a rounding.
//  2. With all N-1 others as candidates the trainer's choice is exactly MAFA's, whatever its current similarities are.
//  3. A pair that is a candidate in both directions is scored once and has one value.
//  4. A sample without a usable image is masked in the record, its candidates have probability 0, and all others have
//     the values that they have without it.
//  5. With [Input.Kept] a pair has the same bits in every epoch, whether cached or not: its probability is a function
//     of Con-D's weights, the pair, and the [Bound] at the batch. Texts are then padded to one length, and the
//     encodings of an image or a text are rounded to float16 before use. A pair that the bound rules out has
//     probability 0, even if a score from before the bound was learned is cached.
//  6. How well Con-D tells known positives from mismatches ([Discriminator.Known]) is a function of its weights, the batches
//     and the draws.
//
// # The precision of connections
//
// [Known.Precision] estimates the share of true pairs among the candidates that Con-D confirms, without knowing the
// truth of any candidate. It uses Con-D's answers to four kinds of pairs whose truth is known: images with their own
// texts (P), with their own texts with one noun replaced (E) or all nouns (R), and with other texts at random (O). It
// assumes:
//
//  1. Con-D answers true candidates like own pairs, if own pairs are selected as candidates are (selection.go).
//  2. False candidates are a mixture of O with texts between E and R, selected in the same way.
//
// So the answers to candidates that do not contradict are distributed as b P + (1 - b) (w H + (1 - w) O), where H lies
// between E and R. For H = E and for H = R the base rate b and the weight w are fitted by maximum likelihood. Only the
// shape of the answers counts, so edited captions and candidates may have different error rates. Where E scores above
// the candidates at a threshold, as among photographs, w is small. Above a threshold h, the confirmed true share is b
// P(h), and b P(h) / q(h) is the precision, where q is the confirmed share of the candidates. Contradicting candidates
// are false and count as such.
// contradicts is false and counts as such.
//
// The estimate is the mean of both fits, and the interval reaches from the lower one to the higher one. Each fit has an
// interval of its own: base rates whose likelihood is not much lower, for resampled counts of P, E, R and O. It is wide
// where Con-D hardly tells edited captions from own ones: E and P are then indistinguishable, and only judgements by
// people narrow it. R is left out where E explains the candidates and R does not: candidates are then as hard as E.
//
// Con-D is any model with a matching head, usually pre-trained and then fine-tuned for retrieval, or a TorchScript
// program. It does not change here. A [Discriminator] is safe for concurrent use, because its model's worker runs one
// request at a time. It reads no files and no topics.
package discriminator

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
)

// ErrNotFinite marks a batch for which Con-D gave something that is no probability.
var ErrNotFinite = errors.New("score is not a finite number")

// Numbers of pairs that go through the fusion encoder at once. A batch has few pairs that are neither kept nor ruled
// out, and its last part is filled up. A GPU takes a large part in the time of a small one.
const (
	processorPart = 8
	devicePart    = 128
)

// Options are the settings of the discriminator's core.
type Options struct {
	// Part is the number of pairs that go through the fusion encoder at once; 0: 8 on the processor, 128 on a GPU. It
	// bounds memory and changes no value.
	Part int
}

// Input holds the decoded images and the tokenized texts of a batch.
type Input struct {
	// Pixels are the preprocessed training images, one after another: 3 x S x S float32 each. The papers' Con-D looks at
	// the same augmented images as the model in training.
	Pixels []float32
	// IDs are the token ids of each sample's text by Con-D's vocabulary: [CLS] ... [SEP], not padded.
	IDs [][]int32
	// Kept holds scores of earlier batches, and adds those of this one; nil: every pair is scored. It requires pixels
	// that are the same in every epoch.
	Kept *Kept
	// Held are encodings of images, from [Kept.Hold], by sample. Pixels need not have these images.
	Held []model.Encoding
	// Bound rules candidates out by Con-D's vectors, and learns from this batch; nil: Con-D is asked about every
	// candidate. It requires Kept. A TorchScript program has no vectors, and rules nothing out.
	Bound *Bound
	// Masked are the samples without a usable image, in order. Con-D is not asked about them.
	Masked []schemas.Mask
}

// Discriminator scores batches.
type Discriminator struct {
	matcher *model.Matcher
	part    int
}

// New prepares to score with m, which stays the caller's.
func New(m *model.Matcher, o Options) (*Discriminator, error) {
	if o.Part < 0 {
		return nil, fmt.Errorf("preparing Con-D: Part %d, want 0 or more", o.Part)
	}
	if o.Part == 0 {
		o.Part = devicePart
		if m.OnProcessor() {
			o.Part = processorPart
		}
	}
	return &Discriminator{matcher: m, part: o.Part}, nil
}

// Fingerprint identifies Con-D's weights.
func (d *Discriminator) Fingerprint() string { return d.matcher.Fingerprint() }

// Score asks Con-D about every candidate of a batch.
func (d *Discriminator) Score(ctx context.Context, b *schemas.Batch, in Input) (*schemas.ScoredBatch, error) {
	scored := &schemas.ScoredBatch{
		Batch: *b, Model: d.Fingerprint(), Masked: in.Masked,
		ProbI2T: make(schemas.Floats32, len(b.I2T)), ProbT2I: make(schemas.Floats32, len(b.T2I)),
	}
	pairs, at := candidatePairs(b, in.Masked)
	match := d.matchAll
	if in.Kept != nil {
		match = d.matchKept
	}
	got, err := match(ctx, b, in, pairs)
	if err == nil {
		err = fill(scored, at, got)
	}
	if err != nil {
		return nil, fmt.Errorf("scoring batch %d of group %s, epoch %d: %w", b.Sequence, b.Group, b.Epoch, err)
	}
	return scored, nil
}

// answers are what became of the pairs of a batch.
type answers struct {
	probabilities []float32
	ruledOut      []bool // by Con-D's vectors, with probability 0; nil: none
}

// places says where in the candidates of the two directions the pairs of a batch stand; -1: no candidate.
type places struct{ i2t, t2i []int32 }

// candidatePairs lists the pairs of both directions, each once; none that has a masked sample.
func candidatePairs(b *schemas.Batch, masks []schemas.Mask) ([]model.Pair, places) {
	masked := maskedSamples(b, masks)
	at := places{i2t: make([]int32, len(b.I2T)), t2i: make([]int32, len(b.T2I))}
	seen := make(map[model.Pair]int32)
	var pairs []model.Pair
	place := func(p model.Pair) int32 {
		if p.Image < 0 || p.Text < 0 || masked[p.Image] || masked[p.Text] {
			return -1
		}
		i, known := seen[p]
		if !known {
			i = int32(len(pairs))
			seen[p] = i
			pairs = append(pairs, p)
		}
		return i
	}
	for k := range b.I2T {
		anchor := int32(k / int(b.M))
		at.i2t[k] = place(model.Pair{Image: anchor, Text: b.I2T[k]})
		at.t2i[k] = place(model.Pair{Image: b.T2I[k], Text: anchor})
	}
	return pairs, at
}

// match asks Con-D about pairs. It does not ask about none.
func (d *Discriminator) match(ctx context.Context, b *schemas.Batch, in Input, pairs []model.Pair) ([]float32, error) {
	if len(in.IDs) != len(b.Samples) {
		return nil, fmt.Errorf("%w: %d texts for %d samples", model.ErrInput, len(in.IDs), len(b.Samples))
	}
	if len(pairs) == 0 {
		return nil, nil
	}
	return d.matcher.Match(ctx, in.Pixels, in.IDs, pairs, d.part)
}

// matchAll asks Con-D about every pair.
func (d *Discriminator) matchAll(ctx context.Context, b *schemas.Batch, in Input, pairs []model.Pair) (answers, error) {
	probabilities, err := d.match(ctx, b, in, pairs)
	return answers{probabilities: probabilities}, err
}

// fill writes the probabilities beside the candidates, and counts the candidates that were ruled out.
func fill(scored *schemas.ScoredBatch, at places, got answers) error {
	for _, way := range []struct {
		places []int32
		prob   schemas.Floats32
	}{{at.i2t, scored.ProbI2T}, {at.t2i, scored.ProbT2I}} {
		for k, i := range way.places {
			if i < 0 {
				continue
			}
			if got.ruledOut != nil && got.ruledOut[i] {
				scored.RuledOut++
			}
			p := got.probabilities[i]
			if math.IsNaN(float64(p)) {
				return fmt.Errorf("%w: candidate %d of anchor %d", ErrNotFinite, k%int(scored.M), k/int(scored.M))
			}
			way.prob[k] = p
		}
	}
	return nil
}
