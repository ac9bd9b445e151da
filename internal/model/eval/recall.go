package eval

import (
	"cmp"
	"fmt"
	"slices"
)

// Pair names an image and a text by their rows.
type Pair struct{ Image, Text int32 }

// Rerank is a two-step evaluation (MAFA appendix F): the matching head ranks the K candidates of every query with the
// best similarity again. Candidates lists the pairs for the head to score.
type Rerank struct {
	truth  Truth
	k      int
	i2t    Matrix
	t2i    Matrix
	texts  [][]int32 // candidates of every image
	images [][]int32 // candidates of every text
}

// NewRerank chooses the k best candidates of every query. The papers use k = 256 for COCO and 128 for Flickr. A k of 0,
// or beyond the number of candidates, takes all.
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
// logit of "matched". Other items stay behind the candidates in their old order.
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
		ir = append(ir, rerankedRank(r.t2i.Row(j), images, score, r.truth.images(j)))
	}
	return Retrieval{TR: recalls(tr), IR: recalls(ir)}
}

// rerankedRank returns the rank of the best relevant column once the candidates are sorted by their scores. Equal
// scores keep their old order.
func rerankedRank(row []float32, candidates []int32, score func(int32) float32, relevant []int32) int {
	again := make([]float32, len(candidates)) // by position in the old order, so that equal scores keep it
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

// hardestNegatives lists ITM's hard negatives over the whole set: for every image, the most similar text that is not
// its own, and for every text the most similar such image. With a single image there are none. Pairs known to match are
// excluded.
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

// Matrix holds scores, row after row.
type Matrix struct {
	Rows, Cols int
	Data       []float32
}

// Row returns one row of the matrix, not a copy.
func (m Matrix) Row(i int) []float32 { return m.Data[i*m.Cols : (i+1)*m.Cols] }

// Transposed returns the matrix with rows and columns exchanged.
func (m Matrix) Transposed() Matrix {
	t := Matrix{Rows: m.Cols, Cols: m.Rows, Data: make([]float32, len(m.Data))}
	for i := range m.Rows {
		for j, v := range m.Row(i) {
			t.Data[j*t.Cols+i] = v
		}
	}
	return t
}

// Truth maps texts to their images.
type Truth struct {
	imageOf []int32   // by text
	textsOf [][]int32 // by image

	imagesOf [][]int32 // by text; nil: imageOf alone
}

// NewTruth makes a truth of the image of every text. Every image must have a text.
func NewTruth(images int, imageOf []int32) (Truth, error) {
	t := Truth{imageOf: imageOf, textsOf: make([][]int32, images)}
	for text, image := range imageOf {
		if image < 0 || int(image) >= images {
			return Truth{}, fmt.Errorf("pairing texts with images: text %d has image %d of %d", text, image, images)
		}
		t.textsOf[image] = append(t.textsOf[image], int32(text))
	}
	for image, texts := range t.textsOf {
		if len(texts) == 0 {
			return Truth{}, fmt.Errorf("pairing texts with images: image %d of %d has no text", image, images)
		}
	}
	return t, nil
}

// With returns a truth in which texts belong to further images.
func (t Truth) With(matches func(image, text int) bool) Truth {
	out := Truth{imageOf: t.imageOf, textsOf: make([][]int32, len(t.textsOf)), imagesOf: make([][]int32, len(t.imageOf))}
	for image := range out.textsOf {
		for text, own := range t.imageOf {
			if int(own) == image || matches(image, text) {
				out.textsOf[image] = append(out.textsOf[image], int32(text))
				out.imagesOf[text] = append(out.imagesOf[text], int32(image))
			}
		}
	}
	return out
}

// images returns the images of a text.
func (t Truth) images(text int) []int32 {
	if t.imagesOf != nil {
		return t.imagesOf[text]
	}
	return t.imageOf[text : text+1]
}

// Images returns the number of images.
func (t Truth) Images() int { return len(t.textsOf) }

// Texts returns the number of texts.
func (t Truth) Texts() int { return len(t.imageOf) }

// Recalls holds the shares of the queries whose true partner is among the first 1, 5 and 10 answers, in percent.
type Recalls struct {
	R1  float64 `json:"r1"`
	R5  float64 `json:"r5"`
	R10 float64 `json:"r10"`
}

// Sum returns the sum of the three recalls.
func (r Recalls) Sum() float64 { return r.R1 + r.R5 + r.R10 }

// Retrieval is a row of the papers' tables. TR queries texts with an image, and the best ranked of several captions
// counts. IR queries images with a text.
type Retrieval struct {
	TR Recalls `json:"tr"`
	IR Recalls `json:"ir"`
}

// RSUM returns the sum of all six recalls; 600 is perfect.
func (r Retrieval) RSUM() float64 { return r.TR.Sum() + r.IR.Sum() }

// Mean returns the mean of all six recalls; 100 is perfect.
func (r Retrieval) Mean() float64 { return r.RSUM() / 6 }

// ByITC evaluates from similarities alone. sim has a row for every image and a column for every text.
func ByITC(sim Matrix, truth Truth) Retrieval {
	return Retrieval{TR: recalls(textRanks(sim, truth)), IR: recalls(imageRanks(sim.Transposed(), truth))}
}

// Chance returns the result that [ByITC] is expected to give for random scores.
func Chance(truth Truth) Retrieval {
	var r Retrieval
	share := func(all, relevant, k int) float64 { // probability that a relevant one is among k of all
		miss := 1.0
		for i := range min(k, all) {
			miss *= max(0, float64(all-relevant-i)/float64(all-i))
		}
		return 100 * (1 - miss)
	}
	n := float64(truth.Images())
	for _, texts := range truth.textsOf {
		r.TR.R1 += share(truth.Texts(), len(texts), 1) / n
		r.TR.R5 += share(truth.Texts(), len(texts), 5) / n
		r.TR.R10 += share(truth.Texts(), len(texts), 10) / n
	}
	r.IR = Recalls{share(truth.Images(), 1, 1), share(truth.Images(), 1, 5), share(truth.Images(), 1, 10)}
	return r
}

// textRanks returns, for every image, the rank (0 = first) of its best ranked text.
func textRanks(sim Matrix, truth Truth) []int {
	ranks := make([]int, sim.Rows)
	for i := range ranks {
		ranks[i] = bestRank(sim.Row(i), truth.textsOf[i])
	}
	return ranks
}

// imageRanks returns, for every text, the rank of its image. sim has a row for every text.
func imageRanks(sim Matrix, truth Truth) []int {
	ranks := make([]int, sim.Rows)
	for j := range ranks {
		ranks[j] = bestRank(sim.Row(j), truth.images(j))
	}
	return ranks
}

// bestRank returns the rank of the best of the relevant columns. Equal scores rank by column. A NaN score ranks last,
// so a broken model cannot look perfect.
func bestRank(row []float32, relevant []int32) int {
	best := relevant[0]
	for _, j := range relevant[1:] {
		if before(row, j, best) {
			best = j
		}
	}
	rank := 0
	for j := range row {
		if int32(j) != best && !before(row, best, int32(j)) {
			rank++
		}
	}
	return rank
}

// before reports whether column a ranks before column b.
func before(row []float32, a, b int32) bool {
	return row[a] > row[b] || row[a] == row[b] && a < b
}

// TopK lists the k best columns of a row, best first; all of them if there are fewer.
func TopK(row []float32, k int) []int32 {
	columns := make([]int32, len(row))
	for j := range columns {
		columns[j] = int32(j)
	}
	slices.SortFunc(columns, func(a, b int32) int {
		return cmp.Or(cmp.Compare(row[b], row[a]), cmp.Compare(a, b))
	})
	return columns[:min(k, len(columns))]
}

func recalls(ranks []int) Recalls {
	var r Recalls
	for _, rank := range ranks {
		if rank < 1 {
			r.R1++
		}
		if rank < 5 {
			r.R5++
		}
		if rank < 10 {
			r.R10++
		}
	}
	scale := 100 / float64(len(ranks))
	return Recalls{r.R1 * scale, r.R5 * scale, r.R10 * scale}
}
