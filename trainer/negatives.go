package trainer

import (
	"math"
	"math/rand/v2"

	"github.com/pairstream/pairstream/internal/base/rng"
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

// weights returns the weights of the draw, up to a common factor. Ineligible samples have weight 0. ALBEF's code takes
// the softmax over all samples and then sets the ineligible ones to 0, which equals the softmax over the eligible ones
// up to a factor.
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

// pick is the choice of one anchor among its candidates, by the training model's current similarity.
type pick struct {
	hardest int32 // most similar candidate, or the drawn one; -1: none
	second  int32 // the next one; -1: none
	class   Class // of the first
}

// candidates lists, for every anchor of one direction, the samples that may be its negatives.
type candidates struct {
	samples  []schemas.Sample
	m        int
	list     schemas.Int32s // samples x m; -1: no more
	prob     schemas.Floats32
	classify func(p float32) Class
}

// directions returns the candidates of the image anchors and of the text anchors. The threshold of the record comes
// before that of the options.
func directions(b *schemas.ScoredBatch, ecm ECMOptions) (i2t, t2i candidates) {
	if b.High > 0 {
		ecm.High, ecm.Low = b.High, min(ecm.Low, b.High)
	}
	i2t = candidates{samples: b.Samples, m: int(b.M), list: b.I2T, prob: b.ProbI2T, classify: ecm.ClassOf}
	t2i = i2t
	t2i.list, t2i.prob = b.T2I, b.ProbT2I
	return i2t, t2i
}

// mine chooses for every anchor. sim holds one row of similarities per anchor; its first len(samples) columns are the
// batch. Only scored candidates are eligible. If there are fewer than N-1 of them and an anchor's true hardest was not
// scored, it takes the hardest scored one. In an unscored batch (m = 0) every other sample is a candidate and a
// negative. Partners are known positives and not eligible.
func (c candidates) mine(sim []float32, columns int, choose chooser) []pick {
	picks := make([]pick, len(c.samples))
	probs := make([]float32, len(c.samples))
	for anchor := range c.samples {
		eligible := c.eligible(anchor, probs)
		p := pick{class: NoCandidate}
		p.hardest, p.second = choose(sim[anchor*columns:], eligible)
		if p.hardest >= 0 {
			p.class = Negative
			if c.m > 0 {
				p.class = c.classify(probs[p.hardest])
			}
		}
		picks[anchor] = p
	}
	return picks
}

// hardestScored counts the anchors of a scored batch that have a hardest sample, and those whose hardest sample is
// among their candidates. The counts show how well Con-D's few candidates cover the hardest samples of the current
// model. sim is as in mine.
func (c candidates) hardestScored(sim []float32, columns int) (anchors, scored int) {
	if c.m == 0 {
		return 0, 0
	}
	all := c
	all.m = 0
	probs := make([]float32, len(c.samples))
	for anchor := range c.samples {
		hardest, _ := twoHardest(sim[anchor*columns:], all.eligible(anchor, probs))
		if hardest < 0 {
			continue
		}
		anchors++
		if c.eligible(anchor, probs)[hardest] {
			scored++
		}
	}
	return anchors, scored
}

// eligible marks the candidates of an anchor by sample and writes their probabilities to probs.
func (c candidates) eligible(anchor int, probs []float32) []bool {
	marks := make([]bool, len(c.samples))
	if c.m == 0 {
		for j := range marks {
			marks[j] = j != anchor
		}
	} else {
		for k := anchor * c.m; k < (anchor+1)*c.m; k++ {
			if j := c.list[k]; j >= 0 {
				marks[j], probs[j] = true, c.prob[k]
			}
		}
	}
	for _, j := range c.samples[anchor].Partners {
		marks[j] = false
	}
	return marks
}

// scored counts the candidates that Con-D looked at, and those above High.
func (c candidates) scored() (total, connections int) {
	for k, j := range c.list {
		if j < 0 {
			continue
		}
		total++
		if c.classify(c.prob[k]) == Connection {
			connections++
		}
	}
	return total, connections
}
