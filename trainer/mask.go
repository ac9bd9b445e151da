package trainer

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

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

// MaskTokens hides tokens for masked language modelling as BERT and the papers' code do. It selects every token but [CLS]
// and padding with the given probability; [SEP] can be selected. Of the selected, 80 % become [MASK] and 10 % stay as they
// are. The other 10 % become an id drawn from the whole vocabulary, special tokens included. The labels are the original
// ids at selected tokens and [IgnoreLabel] elsewhere. A row may end up with nothing selected.
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
