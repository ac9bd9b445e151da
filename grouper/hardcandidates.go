package grouper

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
)

// HardCandidates finds, for each sample of a mini-batch, the m others that are hardest to tell from its partner. For
// the image these are the most similar texts (i2t), for the text the most similar images (t2i). The most similar comes
// first; among equals, the lower index. Row i of v and of t are the features of sample i; image[i] numbers its image.
// Samples of the same image are no candidates, unless image is nil. Both results have m entries per sample, padded with
// -1.
func HardCandidates(ctx context.Context, v, t *dotproduct.Matrix, image []int32, m int) (i2t, t2i []int32, err error) {
	n := v.Rows()
	if m == 0 || n == 0 {
		return nil, nil, nil
	}
	images, texts, err := nearest(ctx, v, t, image, min(m, max(n-1, 1)))
	if err != nil {
		return nil, nil, fmt.Errorf("looking for hard candidates of %d samples: %w", n, err)
	}
	return images.ranked(m), texts.ranked(m), nil
}

// ranked writes the lists out, best first, each padded with -1 to m entries.
func (l *nearestLists) ranked(m int) []int32 {
	out := make([]int32, 0, len(l.counts)*m)
	type entry struct {
		score float32
		item  int32
	}
	var entries []entry
	for anchor := range l.counts {
		scores, items := l.list(int32(anchor))
		entries = entries[:0]
		for k := range items {
			entries = append(entries, entry{scores[k], items[k]})
		}
		slices.SortFunc(entries, func(a, b entry) int {
			return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.item, b.item))
		})
		for _, e := range entries {
			out = append(out, e.item)
		}
		for range m - len(entries) {
			out = append(out, -1)
		}
	}
	return out
}
