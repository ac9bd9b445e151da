package trainer

import (
	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/internal/torch"
	"github.com/pairstream/pairstream/schemas"
)

// maskedRows holds the texts of the masked-language loss with tokens hidden, and what was hidden.
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

// seedDropout starts dropout for a part of a step on a batch. Like the masks, dropout is the same whenever the batch is
// trained on, and whatever the other parts do.
func (t *Trainer) seedDropout(s *torch.Scope, b *schemas.ScoredBatch, part string) {
	if t.options.Dropout > 0 {
		s.Seed(rng.New(t.options.Seed, "dropout "+part, int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence)).Uint64())
	}
}

// selected lists the tokens that were hidden, with their labels. It gives their positions in the rows, padded to the given
// length and laid one after another.
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
