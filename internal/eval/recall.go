package eval

import (
	"cmp"
	"fmt"
	"slices"
)

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

// Truth says which texts belong to which image.
type Truth struct {
	imageOf []int32   // by text
	textsOf [][]int32 // by image
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

// Retrieval is a row of the papers' tables. TR asks with an image for its texts, and the best ranked of several captions
// counts. IR asks with a text for its image.
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
		ranks[j] = bestRank(sim.Row(j), truth.imageOf[j:j+1])
	}
	return ranks
}

// bestRank returns the rank of the best of the relevant columns. Equal scores rank by column. A NaN score never ranks
// before anything, so a broken model cannot look perfect.
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

// TopK lists the k best columns of a row, best first, or all of them when there are fewer.
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
