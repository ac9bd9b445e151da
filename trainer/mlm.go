package trainer

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
	"github.com/pairstream/pairstream/schemas"
)

// mlmPlan lists the (image, text) rows of the masked-language loss.
type mlmPlan struct{ images, texts []int64 }

// planMLM takes the N true pairs. Extra rows with masks of their own are the connections of the images and then those
// of the texts (MAFA eq. 4). A pair that is a connection in both directions makes two rows, as in the authors' code.
func planMLM(n int, i2t, t2i []pick, ecm ECMOptions) mlmPlan {
	var p mlmPlan
	for b := range int64(n) {
		p.images, p.texts = append(p.images, b), append(p.texts, b)
	}
	if !ecm.MLM || ecm.Eliminate {
		return p
	}
	for image, k := range i2t {
		if k.class == Connection {
			p.images, p.texts = append(p.images, int64(image)), append(p.texts, int64(k.hardest))
		}
	}
	for text, k := range t2i {
		if k.class == Connection {
			p.images, p.texts = append(p.images, int64(k.hardest)), append(p.texts, int64(text))
		}
	}
	return p
}

// maskedLanguage computes MLM over the planned rows. Without a hidden token it leaves MLM out.
func (t *Trainer) maskedLanguage(s *torch.Scope, f *forward, mask masker) error {
	f.rows = planMLM(f.counts.Samples, f.picksI2T, f.picksT2I, t.options.ECM)
	texts := make([][]int32, len(f.rows.texts))
	for i, text := range f.rows.texts {
		texts[i] = f.texts[text]
	}
	masked := mask(texts)
	tokenIDs, attention, err := model.Texts(s, masked.ids, t.vocabulary.Pad, t.model.Config)
	if err != nil {
		return err
	}
	positions, labels := masked.selected(int(tokenIDs.Size(1)))
	f.counts.MaskedRows, f.counts.MaskedTokens = len(texts), len(labels)
	if len(labels) == 0 {
		return nil
	}
	images := func(view model.View) model.View {
		if len(texts) > f.counts.Samples {
			return view.Select(s, f.rows.images)
		}
		return view
	}
	logits := t.model.MaskedLogitsAt(s, tokenIDs, attention, images(f.view), positions)
	f.mlmHard = s.CrossEntropy(logits, s.Int64s(labels, int64(len(labels))), IgnoreLabel)
	f.mlm = f.mlmHard
	if share := t.options.mlmShare(t.step); share > 0 {
		var teacher *torch.Tensor
		s.NoGrad(func() {
			average := t.momentum.model
			view := images(average.View(s, f.keys.tokens))
			teacher = s.Softmax(average.MaskedLogitsAt(s, tokenIDs, attention, view, positions), 1)
		})
		f.mlmSoft = rowCrossEntropy(s, teacher, s.LogSoftmax(logits, 1))
		f.mlm = s.Add(s.MulScalar(f.mlmHard, 1-share), s.MulScalar(f.mlmSoft, share))
	}
	return nil
}

// IgnoreLabel marks a token that the masked-language loss does not ask for.
const IgnoreLabel = -100

// Vocabulary holds what masking and padding need to know of a tokenizer.
type Vocabulary struct {
	Size int   // ids are 0..Size-1
	Pad  int32 // [PAD]
	CLS  int32 // [CLS]
	Mask int32 // [MASK]
}

// VocabularyOf finds the special tokens in a WordPiece vocabulary whose index is the id.
func VocabularyOf(tokens []string) (Vocabulary, error) {
	v := Vocabulary{Size: len(tokens)}
	for name, id := range map[string]*int32{"[PAD]": &v.Pad, "[CLS]": &v.CLS, "[MASK]": &v.Mask} {
		i := slices.Index(tokens, name)
		if i < 0 {
			return Vocabulary{}, fmt.Errorf("finding special tokens: the vocabulary of %d tokens has no %s", len(tokens), name)
		}
		*id = int32(i)
	}
	return v, nil
}

// MaskTokens hides tokens for masked language modelling as BERT and the papers' code do. It selects every token but
// [CLS] and padding with the given probability; [SEP] can be selected. Of the selected, 80 % become [MASK] and 10 %
// stay as they are. The other 10 % become an id drawn from the whole vocabulary, special tokens included. The labels
// are the original ids at selected tokens and [IgnoreLabel] elsewhere. A row may end up with nothing selected.
func (v Vocabulary) MaskTokens(ids []int32, probability float64, r *rand.Rand) (masked []int32, labels []int64) {
	masked = slices.Clone(ids)
	labels = make([]int64, len(ids))
	for i, id := range ids {
		labels[i] = IgnoreLabel
		if id == v.Pad || id == v.CLS || r.Float64() >= probability {
			continue
		}
		labels[i] = int64(id)
		switch u := r.Float64(); {
		case u < 0.8:
			masked[i] = v.Mask
		case u < 0.9:
			masked[i] = int32(r.IntN(v.Size))
		}
	}
	return masked, labels
}

// maskedRows holds the texts of the masked-language loss with tokens hidden, and the hidden tokens.
type maskedRows struct {
	ids    [][]int32
	labels [][]int64
}

// masker hides tokens in the texts of the given rows, each on its own.
type masker func(texts [][]int32) maskedRows

// masker returns a function that draws the masks of a batch. The same batch gets the same masks, whenever it is trained
// on.
func (t *Trainer) masker(b *schemas.ScoredBatch) masker {
	return func(texts [][]int32) maskedRows {
		r := rng.New(t.options.Seed, "mlm", int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence))
		var rows maskedRows
		for _, ids := range texts {
			masked, labels := t.vocabulary.MaskTokens(ids, t.options.MaskProbability, r)
			rows.ids, rows.labels = append(rows.ids, masked), append(rows.labels, labels)
		}
		return rows
	}
}

// selected lists the tokens that were hidden, with their labels. It gives their positions in the rows, padded to the
// given length and laid one after another.
func (m maskedRows) selected(length int) (positions, labels []int64) {
	for row := range m.labels {
		for i, label := range m.labels[row] {
			if label != IgnoreLabel {
				positions = append(positions, int64(row*length+i))
				labels = append(labels, label)
			}
		}
	}
	return positions, labels
}
