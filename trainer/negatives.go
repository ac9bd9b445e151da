package trainer

import (
	"math"
	"math/rand/v2"

	"github.com/pairstream/pairstream/internal/rng"
	"github.com/pairstream/pairstream/schemas"
)

// Negatives names how ITM finds an anchor's negative among its candidates.
type Negatives string

const (
	// HardestNegatives takes the most similar candidate (GRIT-VLP's and MAFA's code, MAFA algorithm 1).
	HardestNegatives Negatives = "hardest"
	// MultinomialNegatives draws with the softmax of the similarities as weights (ALBEF, TCL, fine-tuning for retrieval).
	MultinomialNegatives Negatives = "multinomial"
	// RandomNegatives draws uniformly (GRIT-VLP table 1).
	RandomNegatives Negatives = "random"
)

func (n Negatives) valid() bool {
	return n == HardestNegatives || n == MultinomialNegatives || n == RandomNegatives
}

// chooser picks an anchor's negative among the eligible entries of its row of similarities. It also picks the next one,
// which may replace the first; -1: there is none.
type chooser func(row []float32, eligible []bool) (first, second int32)

// chooser returns a chooser that draws from a generator of the batch, in the order of its calls.
func (n Negatives) chooser(seed uint64, b *schemas.ScoredBatch) chooser {
	if n == HardestNegatives || n == "" {
		return twoHardest
	}
	r := rng.New(seed, "itm negatives", int64(b.Group.Lane), b.Group.Seq, int64(b.Epoch), int64(b.Sequence))
	return func(row []float32, eligible []bool) (first, second int32) {
		weights := n.weights(row, eligible)
		first = draw(weights, r)
		if first >= 0 {
			weights[first] = 0
		}
		return first, draw(weights, r)
	}
}

// twoHardest picks the two most similar eligible entries. Of equal similarities it takes the lower index first.
func twoHardest(row []float32, eligible []bool) (first, second int32) {
	first, second = -1, -1
	for j, ok := range eligible {
		switch {
		case !ok:
		case first < 0 || row[j] > row[first]:
			first, second = int32(j), first
		case second < 0 || row[j] > row[second]:
			second = int32(j)
		}
	}
	return first, second
}

// weights returns the weights of the draw, up to a common factor. What is not eligible has weight 0. ALBEF's code takes
// the softmax over all samples and then sets the others to 0. That equals the softmax over the eligible ones up to a
// factor.
func (n Negatives) weights(row []float32, eligible []bool) []float64 {
	highest := math.Inf(-1)
	for j, ok := range eligible {
		if ok {
			highest = max(highest, float64(row[j]))
		}
	}
	weights := make([]float64, len(eligible))
	for j, ok := range eligible {
		switch {
		case !ok:
		case n == RandomNegatives:
			weights[j] = 1
		default:
			weights[j] = math.Exp(float64(row[j]) - highest)
		}
	}
	return weights
}

// draw inverts the cumulative distribution at a uniform number. It takes one number a draw, and returns -1 when every
// weight is 0.
func draw(weights []float64, r *rand.Rand) int32 {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	at, last := r.Float64()*total, int32(-1)
	for j, w := range weights {
		if w == 0 {
			continue
		}
		if at < w {
			return int32(j)
		}
		at -= w
		last = int32(j)
	}
	return last // rounding has left a rest behind the last weight
}
