package discriminator

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/pairstream/pairstream/internal/eval"
	"github.com/pairstream/pairstream/internal/model"
	"github.com/pairstream/pairstream/schemas"
)

// mismatches is the number of other images that a text is asked about.
const mismatches = 2

// Known holds Con-D's probabilities of pairs whose truth is known without it.
type Known struct {
	Positives  []float32 `json:"positives"`  // of an image and its own text
	Mismatches []float32 `json:"mismatches"` // of a text and another image of its mini-batch
}

// Add appends further probabilities.
func (k *Known) Add(o Known) {
	k.Positives, k.Mismatches = append(k.Positives, o.Positives...), append(k.Mismatches, o.Mismatches...)
}

// AUC returns the chance that a known positive has a higher probability than a mismatch. Without either kind it is 0.5.
func (k Known) AUC() float64 {
	all := make([]eval.Judgement, 0, len(k.Positives)+len(k.Mismatches))
	for _, p := range k.Positives {
		all = append(all, eval.Judgement{P: p, True: true})
	}
	for _, p := range k.Mismatches {
		all = append(all, eval.Judgement{P: p})
	}
	return eval.AUC(all)
}

// Known asks Con-D about every image with its own text, and about every text with other images, which draws chooses. Samples
// that show the text's image are no mismatches. In a batch of one image there are none, and Con-D is not asked.
func (d *Discriminator) Known(ctx context.Context, b *schemas.Batch, in Input, draws *rand.Rand) (Known, error) {
	pairs := knownPairs(b, in.Masked, draws)
	probabilities, err := d.match(ctx, b, in, pairs)
	if err != nil {
		return Known{}, fmt.Errorf("asking about known positives of batch %d of group %s, epoch %d: %w", b.Sequence, b.Group, b.Epoch, err)
	}
	var k Known
	for i, p := range probabilities {
		if math.IsNaN(float64(p)) {
			return Known{}, fmt.Errorf("asking about known positives of batch %d of group %s, epoch %d: %w: image %d, text %d",
				b.Sequence, b.Group, b.Epoch, ErrNotFinite, pairs[i].Image, pairs[i].Text)
		}
		if pairs[i].Image == pairs[i].Text {
			k.Positives = append(k.Positives, p)
		} else {
			k.Mismatches = append(k.Mismatches, p)
		}
	}
	return k, nil
}

// knownPairs lists the known positives of a batch, each followed by its mismatches.
func knownPairs(b *schemas.Batch, masks []schemas.Mask, draws *rand.Rand) (pairs []model.Pair) {
	masked := maskedSamples(b, masks)
	for text := range b.Samples {
		if masked[text] {
			continue
		}
		var others []int32
		for image := range b.Samples {
			if !masked[image] && b.Samples[image].ImageID != b.Samples[text].ImageID {
				others = append(others, int32(image))
			}
		}
		if len(others) == 0 {
			continue
		}
		pairs = append(pairs, model.Pair{Image: int32(text), Text: int32(text)})
		for range min(mismatches, len(others)) {
			at := draws.IntN(len(others))
			pairs = append(pairs, model.Pair{Image: others[at], Text: int32(text)})
			others[at] = others[len(others)-1]
			others = others[:len(others)-1]
		}
	}
	return pairs
}

// maskedSamples marks the samples whose own image is masked.
func maskedSamples(b *schemas.Batch, masks []schemas.Mask) []bool {
	masked := make([]bool, len(b.Samples))
	for _, m := range masks {
		masked[m.Sample] = masked[m.Sample] || !m.Positive
	}
	return masked
}
