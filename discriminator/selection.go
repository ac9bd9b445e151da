package discriminator

import (
	"cmp"
	"context"
	"slices"
)

// keptBytes is the room for the encodings of one batch that is measured without [Input.Kept].
const keptBytes = 1 << 30

// ways are the similarities of the images of a batch to its texts, and which pairs are candidates, from both sides.
type ways struct {
	similar   [2][][]float32 // by anchor: to every other sample; of images to texts, and of texts to images
	candidate [2][][]bool
}

// selection reports which pairs of known truth would have been candidates.
//
// Candidates are chosen because they are similar, so Con-D answers them higher than pairs that are not chosen, whether
// true or false. To compare pairs of known truth with candidates, select them as candidates are selected. Con-D's
// vectors give the share of candidates among the other samples of a batch by rank of similarity: the first few nearly
// always, the last ones never. A pair of known truth is selected with the share of its rank. A TorchScript program has
// no vectors; all its pairs are selected.
func (k *keptBatch) selection(ctx context.Context, q Questions) (func(int) bool, error) {
	if !k.matcher.Encodes() {
		return func(int) bool { return true }, nil
	}
	n := len(k.batch.Samples)
	images, texts := rowsOf(q.pairs)
	if err := k.images.needVectors(ctx, images); err != nil {
		return nil, err
	}
	if err := k.texts.needVectors(ctx, texts); err != nil {
		return nil, err
	}
	w := k.ways()
	var chosen [2][]float64 // how often samples of a rank are candidates, by direction
	most := 0.0
	for way := range chosen {
		chosen[way] = w.chosen(way, n)
		highest := 0.0
		for _, share := range chosen[way] {
			highest = max(highest, share)
		}
		most += highest
	}
	return func(i int) bool {
		if kind := q.kinds[i]; kind == candidate || kind == contradicting || kind == other {
			return true
		}
		p := q.pairs[i]
		s := similarity(k.images.have[p.Image].Vector, k.texts.have[p.Text].Vector)
		text := p.Image // an edited text stands in the place of the image's own
		if int(p.Text) < n {
			text = p.Text
		}
		share := at(chosen[0], rankOf(w.similar[0][p.Image], s)) + at(chosen[1], rankOf(w.similar[1][text], s))
		return q.draws[i]*most < share
	}, nil
}

// ways compares all samples whose vectors are known.
func (k *keptBatch) ways() (w ways) {
	b := k.batch
	n, m := len(b.Samples), int(b.M)
	for way, list := range [][]int32{b.I2T, b.T2I} {
		w.similar[way], w.candidate[way] = make([][]float32, n), make([][]bool, n)
		for anchor := range n {
			is := make([]bool, n)
			for _, other := range list[anchor*m : (anchor+1)*m] {
				if other >= 0 {
					is[other] = true
				}
			}
			for other := range n {
				image, text := anchor, other
				if way == 1 {
					image, text = other, anchor
				}
				if b.Samples[image].ImageID == b.Samples[text].ImageID || k.images.have[image].Vector == nil || k.texts.have[text].Vector == nil {
					continue
				}
				w.similar[way][anchor] = append(w.similar[way][anchor], similarity(k.images.have[image].Vector, k.texts.have[text].Vector))
				w.candidate[way][anchor] = append(w.candidate[way][anchor], is[other])
			}
		}
	}
	return w
}

// chosen returns the share of candidates among the samples of each rank.
func (w ways) chosen(way, n int) []float64 {
	hits, all := make([]float64, n), make([]float64, n)
	for anchor, list := range w.similar[way] {
		order := make([]int, len(list))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(list[b], list[a]) })
		for r, i := range order {
			all[r]++
			if w.candidate[way][anchor][i] {
				hits[r]++
			}
		}
	}
	for r := range hits {
		hits[r] /= max(all[r], 1)
	}
	return hits
}

// rankOf counts the similarities that are higher.
func rankOf(list []float32, s float32) (rank int) {
	for _, other := range list {
		if other > s {
			rank++
		}
	}
	return rank
}

// at returns the share of a rank. Behind the last it is 0.
func at(shares []float64, rank int) float64 {
	if rank >= len(shares) {
		return 0
	}
	return shares[rank]
}
