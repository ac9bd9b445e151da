package discriminator

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pairstream/pairstream/internal/base/auc"
	"github.com/pairstream/pairstream/internal/content/hardcaption"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/schemas"
)

// Known holds Con-D's probabilities of a lane's candidates, and of pairs whose truth is known without it. It lies in
// the marks of a lane, whose room is small: see [Probabilities].
//
// Positives, Edited and Reworded hold the pairs that would have been candidates had their text been another sample's
// (see selection). The others say nothing about candidates.
type Known struct {
	Pairs         int           `json:"pairs"`         // known positives that Con-D was asked about
	Before        int           `json:"before"`        // of these, before the last batch
	Positives     Probabilities `json:"positives"`     // of an image and its own text, or another text of the image
	Edited        Probabilities `json:"edited"`        // of an image and its own text, of which a noun or a colour is replaced
	Reworded      Probabilities `json:"reworded"`      // of an image and its own text, of which all nouns and colours are replaced
	Others        Probabilities `json:"others"`        // of an image and a text of the batch that is no candidate
	Candidates    Probabilities `json:"candidates"`    // of the hardest candidates, whatever is true of them
	Contradicting Probabilities `json:"contradicting"` // of those candidates whose text contradicts the image's own
	Asked         []Asked       `json:"-"`             // the candidates of the batch at hand, each once
}

// Asked is a candidate with what Con-D says of it.
type Asked struct {
	model.Pair
	Probability float32
}

// Confirmed returns the candidates of the batch at hand that are above a threshold, or nil if there are none.
func (k Known) Confirmed(threshold float64) *schemas.Confirmed {
	var c schemas.Confirmed
	for _, a := range k.Asked {
		if a.Probability > float32(threshold) {
			c.Image, c.Text, c.Probability = append(c.Image, a.Image), append(c.Text, a.Text), append(c.Probability, a.Probability)
		}
	}
	if len(c.Image) == 0 {
		return nil
	}
	return &c
}

// Add appends further probabilities, rounded. It leaves the candidates of the batch at hand out.
func (k *Known) Add(o Known) {
	k.Before, k.Pairs = k.Pairs, k.Pairs+o.Pairs
	k.Positives, k.Edited = k.Positives.with(o.Positives), k.Edited.with(o.Edited)
	k.Reworded, k.Others = k.Reworded.with(o.Reworded), k.Others.with(o.Others)
	k.Candidates, k.Contradicting = k.Candidates.with(o.Candidates), k.Contradicting.with(o.Contradicting)
}

// AUC returns the chance that a known positive has a higher probability than a hard negative. Without either kind it is
// 0.5.
func (k Known) AUC() float64 {
	all := make([]auc.Judgement, 0, len(k.Positives)+len(k.Edited)+len(k.Reworded)+len(k.Contradicting))
	for _, p := range k.Positives {
		all = append(all, auc.Judgement{P: p, True: true})
	}
	for _, negatives := range [][]float32{k.Edited, k.Reworded, k.Contradicting} {
		for _, p := range negatives {
			all = append(all, auc.Judgement{P: p})
		}
	}
	return auc.Of(all)
}

// kind is the kind of a pair that Con-D is asked about.
type kind uint8

const (
	positive kind = iota
	edited
	reworded
	other
	candidate
	contradicting // a candidate that contradicts the image
)

// Questions are the pairs of a batch for measuring Con-D.
type Questions struct {
	// Edits are the edited texts. Their indices follow those of the samples.
	Edits []string

	pairs []model.Pair
	kinds []kind
	times []int     // a candidate in both directions counts twice, as in training
	draws []float64 // of a pair that may be selected
}

// NewQuestions lists what Con-D is asked about a batch when it is measured. In a batch of one image there is nothing to
// ask.
func NewQuestions(b *schemas.Batch, masks []schemas.Mask, tagger hardcaption.Tagger, draws *rand.Rand) Questions {
	var q Questions
	masked := maskedSamples(b, masks)
	captions := make([]hardcaption.Caption, len(b.Samples))
	for i := range b.Samples {
		captions[i] = hardcaption.Read(tagger, b.Samples[i].Text)
	}
	several := false
	for i := range b.Samples {
		several = several || b.Samples[i].ImageID != b.Samples[0].ImageID
	}
	if !several {
		return q
	}
	asked, at := candidatePairs(b, masks)
	for i := range b.Samples {
		if masked[i] || b.Samples[i].Replaced {
			continue
		}
		image := int32(i)
		q.add(positive, image, image, draws)
		for _, p := range b.Samples[i].Partners {
			if !masked[p] && !b.Samples[p].Replaced {
				q.add(positive, image, p, draws)
			}
		}
		fits := mayFit(b, i)
		for range edits {
			q.edit(edited, image, len(b.Samples), hardcaption.Edit, captions, b.Samples[i].Partners, fits, draws)
		}
		for range rewordings {
			q.edit(reworded, image, len(b.Samples), hardcaption.Reword, captions, b.Samples[i].Partners, fits, draws)
		}
		if text := int32(draws.IntN(len(b.Samples))); b.Samples[text].ImageID != b.Samples[i].ImageID && !masked[text] &&
			!slices.Contains(asked, model.Pair{Image: image, Text: text}) {
			q.add(other, image, text, draws)
		}
	}
	for i, p := range asked {
		known := candidate
		if !b.Samples[p.Image].Replaced && !b.Samples[p.Text].Replaced && captions[p.Image].Contradicts(captions[p.Text]) {
			known = contradicting
		}
		q.add(known, p.Image, p.Text, draws)
		q.times[len(q.times)-1] = at.times(int32(i))
	}
	return q
}

// edits and rewordings are how many captions of these kinds are asked about for each image. Not all are selected.
const edits, rewordings = 2, 3

// mayFit lists the samples whose words may be true of an image: other texts of it, and its candidates.
func mayFit(b *schemas.Batch, i int) []int32 {
	list := slices.Clone(b.Samples[i].Partners)
	for _, text := range b.I2T[i*int(b.M) : (i+1)*int(b.M)] {
		if text >= 0 {
			list = append(list, text)
		}
	}
	return list
}

func (q *Questions) add(k kind, image, text int32, draws *rand.Rand) {
	q.pairs, q.kinds, q.times = append(q.pairs, model.Pair{Image: image, Text: text}), append(q.kinds, k), append(q.times, 1)
	q.draws = append(q.draws, draws.Float64())
}

// edit adds a text that is made of the image's own, of words that fits do not have. Where there are none, its partners
// alone are heeded.
func (q *Questions) edit(k kind, image int32, samples int, make func([]hardcaption.Caption, int, []int32, *rand.Rand) (string, bool),
	captions []hardcaption.Caption, partners, fits []int32, draws *rand.Rand,
) {
	text, ok := make(captions, int(image), fits, draws)
	if !ok {
		text, ok = make(captions, int(image), partners, draws)
	}
	if ok {
		q.add(k, image, int32(samples+len(q.Edits)), draws)
		q.Edits = append(q.Edits, text)
	}
}

// Known asks Con-D the questions about a batch. edits are the token ids of the edited texts. With [Input.Kept] it uses
// cached answers, and caches its own. The bound rules nothing out here.
func (d *Discriminator) Known(ctx context.Context, b *schemas.Batch, in Input, q Questions, edits [][]int32) (Known, error) {
	failed := func(err error) (Known, error) {
		return Known{}, fmt.Errorf("measuring Con-D on batch %d of group %s, epoch %d: %w", b.Sequence, b.Group, b.Epoch, err)
	}
	if len(q.pairs) == 0 {
		return Known{}, nil
	}
	if len(in.IDs) != len(b.Samples) || len(edits) != len(q.Edits) {
		return failed(fmt.Errorf("%w: %d and %d texts for %d samples and %d edits", model.ErrInput, len(in.IDs), len(edits), len(b.Samples), len(q.Edits)))
	}
	if in.Kept == nil {
		in.Kept = NewKept(2*len(q.pairs)+2, keptBytes) // of this batch alone
	}
	probabilities, selected, err := d.matchKnown(ctx, b, in, q, editedTexts{q.Edits, edits})
	if err != nil {
		return failed(err)
	}
	var k Known
	for i, p := range probabilities {
		if math.IsNaN(float64(p)) {
			return failed(fmt.Errorf("%w: image %d, text %d", ErrNotFinite, q.pairs[i].Image, q.pairs[i].Text))
		}
		if kind := q.kinds[i]; kind == candidate || kind == contradicting {
			k.Asked = append(k.Asked, Asked{q.pairs[i], p})
		}
		if q.kinds[i] == positive {
			k.Pairs++
		}
		if !selected(i) {
			continue
		}
		switch q.kinds[i] {
		case positive:
			k.Positives = append(k.Positives, p)
		case edited:
			k.Edited = append(k.Edited, p)
		case reworded:
			k.Reworded = append(k.Reworded, p)
		case other:
			k.Others = append(k.Others, p)
		case contradicting:
			k.Contradicting = append(k.Contradicting, slices.Repeat([]float32{p}, q.times[i])...)
			k.Candidates = append(k.Candidates, slices.Repeat([]float32{p}, q.times[i])...)
		case candidate:
			k.Candidates = append(k.Candidates, slices.Repeat([]float32{p}, q.times[i])...)
		}
	}
	return k, nil
}

// times returns in how many places a pair is a candidate.
func (p places) times(pair int32) (n int) {
	for _, way := range [][]int32{p.i2t, p.t2i} {
		for _, at := range way {
			if at == pair {
				n++
			}
		}
	}
	return n
}

// maskedSamples marks the samples whose own image is masked.
func maskedSamples(b *schemas.Batch, masks []schemas.Mask) []bool {
	masked := make([]bool, len(b.Samples))
	for _, m := range masks {
		masked[m.Sample] = masked[m.Sample] || !m.Positive
	}
	return masked
}

// steps is the number of steps of a probability in [Probabilities].
const steps = 1000
