package eval

import (
	"context"
	"errors"
	"slices"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/model"
	"github.com/pairstream/pairstream/internal/model/torch"
)

// maskShares are the masking probabilities of GRIT-VLP's Figure 4.
var maskShares = []float64{0.15, 0.35, 0.5, 0.75}

// Usage measures how well hidden words are predicted with the image and without it. The difference is the usage of
// vision (UoV, GRIT-VLP section 5.6).
type Usage struct {
	Share   float64  `json:"masked"` // probability with which a word is hidden
	Words   int      `json:"words"`  // hidden words, the same ones with and without the image
	With    Accuracy `json:"with_image"`
	Without Accuracy `json:"without_image"`
}

// Accuracy is the share of words that are the first guess, and among the first five, in percent.
type Accuracy struct {
	Top1 float64 `json:"top1"`
	Top5 float64 `json:"top5"`
}

// guesses is the number of guesses that count.
const guesses = 5

// vision measures the usage of vision. Every word except [CLS] and [SEP] is hidden with the same probability, by
// [MASK]. Without the image, the fusion layers skip their cross-attention.
func (e *evaluation) vision(ctx context.Context, s *torch.Scope) error {
	mask := slices.Index(e.model.Vocab, "[MASK]")
	if !e.model.HasMasked() || mask < 0 {
		return errors.New("the usage of vision needs a model with an MLM head and a vocabulary with [MASK]")
	}
	for _, share := range maskShares {
		u := Usage{Share: share}
		var with, without [2]int
		for from := 0; from < len(e.data.Texts); from += e.options.Batch {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := e.hide(from, min(from+e.options.Batch, len(e.data.Texts)), share, int32(mask))
			if len(b.words) == 0 {
				continue
			}
			u.Words += len(b.words)
			err := s.Nest(func(s *torch.Scope) error {
				ids, marks, err := model.Texts(s, b.ids, int32(max(0, slices.Index(e.model.Vocab, "[PAD]"))), e.model.Config)
				if err != nil {
					return err
				}
				images := e.model.View(s, s.IndexSelect(e.encoded.Tokens, 0, s.Int64s(b.images, int64(len(b.images)))))
				b.count(s, e.model.MaskedLogitsAt(s, ids, marks, images, b.positions), &with)
				b.count(s, e.model.MaskedLogitsAt(s, ids, marks, model.View{}, b.positions), &without)
				return nil
			})
			if err != nil {
				return err
			}
		}
		share := func(n int) float64 { return 100 * float64(n) / float64(max(1, u.Words)) }
		u.With = Accuracy{share(with[0]), share(with[1])}
		u.Without = Accuracy{share(without[0]), share(without[1])}
		e.report.Vision = append(e.report.Vision, u)
	}
	return nil
}

// hidden is a batch of texts with hidden words.
type hidden struct {
	ids       [][]int32
	images    []int64 // of each text
	positions []int64 // of the hidden words, in the padded batch
	words     []int32 // the original words
}

// hide hides words of the texts [from, to). The draws depend only on the text's number and the probability.
func (e *evaluation) hide(from, to int, share float64, mask int32) hidden {
	var b hidden
	longest := 0
	for _, ids := range e.data.Texts[from:to] {
		longest = max(longest, len(ids))
	}
	for i, ids := range e.data.Texts[from:to] {
		draw := rng.New(0, "usage of vision", int64(from+i), int64(100*share))
		ids = slices.Clone(ids)
		for k := 1; k < len(ids)-1; k++ {
			if draw.Float64() >= share {
				continue
			}
			if counts := e.options.VisionWords; counts == nil || counts(e.model.Vocab[ids[k]]) {
				b.positions = append(b.positions, int64(i*longest+k))
				b.words = append(b.words, ids[k])
			}
			ids[k] = mask
		}
		b.ids = append(b.ids, ids)
		b.images = append(b.images, int64(e.data.ImageOf[from+i]))
	}
	return b
}

// count adds the words that are the first guess, and those among the first five.
func (b hidden) count(s *torch.Scope, logits *torch.Tensor, found *[2]int) {
	k := min(guesses, logits.Size(-1))
	_, first := s.TopK(logits, k, -1)
	guessed := first.Int64s()
	for i, word := range b.words {
		at := slices.Index(guessed[int64(i)*k:int64(i+1)*k], int64(word))
		if at == 0 {
			found[0]++
		}
		if at >= 0 {
			found[1]++
		}
	}
}
