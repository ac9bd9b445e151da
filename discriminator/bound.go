package discriminator

import (
	"math"
)

// Bound is the similarity below which Con-D's own vectors rule a candidate out, so that Con-D's fusion encoder is
// skipped. It is the least similarity among the first matches of a lane. Until it has seen enough matches, Con-D is
// asked about all candidates, so the bound learns from an unselected sample. It is a function of the lane's batches,
// and is saved in the stage's marks.
type Bound struct {
	Model   string  `json:"model"`   // fingerprint of Con-D
	Level   float64 `json:"level"`   // probability from which a candidate counts as a match: no negative for the trainer
	Matches int     `json:"matches"` // matches seen so far, up to the number needed
	Least   float32 `json:"least"`   // least similarity among them
}

// NewBound returns the bound of a lane at its first batch with a Con-D. It will miss few candidates with a probability
// of level or more.
func NewBound(model string, level float64) *Bound {
	return &Bound{Model: model, Level: level, Least: 1}
}

// learned reports whether the bound rules candidates out.
func (b *Bound) learned() bool { return b.Matches >= enoughMatches }

// rulesOut reports whether a candidate of this similarity is not asked about.
func (b *Bound) rulesOut(similarity float32) bool { return b.learned() && similarity < b.Least }

// learn takes up the matches of a batch, in the order of its pairs.
func (b *Bound) learn(similarities, probabilities []float32) {
	for i, p := range probabilities {
		if b.learned() {
			return
		}
		if p >= float32(b.Level) {
			b.Matches++
			b.Least = min(b.Least, similarities[i])
		}
	}
}

// similarity returns the product of two unit vectors. A product of two float32 values is exact in float64, so the bits
// are the same on every machine.
func similarity(a, b []float32) float32 {
	var sum float64
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	if math.IsNaN(sum) {
		return 1 // Con-D is asked, and its answer refused
	}
	return float32(sum)
}

const (
	// mostMissed is the share of the matches that may lie below a bound, and certainty how sure that is.
	mostMissed, certainty = 0.005, 0.95
	// enoughMatches is the number of matches from which a [Bound] is learned. A share s of all matches lies below the
	// least of n with a chance of (1-s)^n, whatever their distribution is. This is the first n for which mostMissed has a
	// chance of 5 %.
	enoughMatches = 598
)
