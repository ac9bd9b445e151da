package eval

import "slices"

// Pair names an image and a text by their rows.
type Pair struct{ Image, Text int32 }

// Rerank is a two-step evaluation (MAFA appendix F): the matching head ranks again the K candidates of every query that
// are best by similarity. Candidates lists what the head has to score.
type Rerank struct {
	truth  Truth
	k      int
	i2t    Matrix
	t2i    Matrix
	texts  [][]int32 // candidates of every image
	images [][]int32 // candidates of every text
}

// NewRerank chooses the k best candidates of every query. The papers use k = 256 for COCO and 128 for Flickr. A k of 0, or
// beyond the number of candidates, takes all.
func NewRerank(sim Matrix, truth Truth, k int) *Rerank {
	if all := max(sim.Rows, sim.Cols); k <= 0 || k > all {
		k = all
	}
	r := &Rerank{truth: truth, k: k, i2t: sim, t2i: sim.Transposed()}
	for i := range sim.Rows {
		r.texts = append(r.texts, TopK(r.i2t.Row(i), k))
	}
	for j := range sim.Cols {
		r.images = append(r.images, TopK(r.t2i.Row(j), k))
	}
	return r
}

// Pairs lists every candidate pair of either direction once, sorted by image and then by text.
func (r *Rerank) Pairs() []Pair {
	byImage := make([][]int32, len(r.texts))
	for i, texts := range r.texts {
		byImage[i] = slices.Clone(texts)
	}
	for j, images := range r.images {
		for _, i := range images {
			byImage[i] = append(byImage[i], int32(j))
		}
	}
	var pairs []Pair
	for i, texts := range byImage {
		slices.Sort(texts)
		for _, j := range slices.Compact(texts) {
			pairs = append(pairs, Pair{int32(i), j})
		}
	}
	return pairs
}

// Recalls ranks again with the matching head's score of every pair of [Rerank.Pairs]. In the reference the score is the
// logit of "matched". Whatever was not a candidate stays behind the candidates in its old order.
func (r *Rerank) Recalls(pairs []Pair, scores []float32) Retrieval {
	byPair := make(map[Pair]float32, len(pairs))
	for n, p := range pairs {
		byPair[p] = scores[n]
	}
	var tr, ir []int
	for i, texts := range r.texts {
		score := func(j int32) float32 { return byPair[Pair{int32(i), j}] }
		tr = append(tr, rerankedRank(r.i2t.Row(i), texts, score, r.truth.textsOf[i]))
	}
	for j, images := range r.images {
		score := func(i int32) float32 { return byPair[Pair{i, int32(j)}] }
		ir = append(ir, rerankedRank(r.t2i.Row(j), images, score, r.truth.imageOf[j:j+1]))
	}
	return Retrieval{TR: recalls(tr), IR: recalls(ir)}
}

// rerankedRank returns the rank of the best relevant column once the candidates are sorted by their scores. Equal scores
// keep their old order.
func rerankedRank(row []float32, candidates []int32, score func(int32) float32, relevant []int32) int {
	again := make([]float32, len(candidates)) // by place in the old order, so that equal scores keep it
	var found []int32
	for place, c := range candidates {
		again[place] = score(c)
		if slices.Contains(relevant, c) {
			found = append(found, int32(place))
		}
	}
	if len(found) == 0 {
		return bestRank(row, relevant)
	}
	return bestRank(again, found)
}

// pairs lists every text with its image.
func (t Truth) pairs() []Pair {
	pairs := make([]Pair, len(t.imageOf))
	for text, image := range t.imageOf {
		pairs[text] = Pair{Image: image, Text: int32(text)}
	}
	return pairs
}

// hardestNegatives lists ITM's hard negatives over the whole set. They are, for every image, the most similar text that is
// not its own, and for every text the most similar such image. With a single image there are none. Pairs that match, if that
// is known, are no negatives.
func (t Truth) hardestNegatives(sim Matrix, matches func(image, text int) bool) []Pair {
	if matches == nil {
		matches = func(image, text int) bool { return false }
	}
	var pairs []Pair
	for image := range t.textsOf {
		row := sim.Row(image)
		best := int32(-1)
		for text := range row {
			if t.imageOf[text] != int32(image) && (best < 0 || row[text] > row[best]) && !matches(image, text) {
				best = int32(text)
			}
		}
		if best >= 0 {
			pairs = append(pairs, Pair{Image: int32(image), Text: best})
		}
	}
	for text, own := range t.imageOf {
		best := int32(-1)
		for image := range t.textsOf {
			if int32(image) != own && (best < 0 || sim.Row(image)[text] > sim.Row(int(best))[text]) && !matches(image, text) {
				best = int32(image)
			}
		}
		if best >= 0 {
			pairs = append(pairs, Pair{Image: best, Text: int32(text)})
		}
	}
	return pairs
}
