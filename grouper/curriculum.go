package grouper

import (
	"math"
	"slices"

	"github.com/pairstream/pairstream/schemas"
)

// The curriculum of GPN-S (section 3.3.1): captions of low similarity to their image are replaced by the image's
// objects, fewer of them from epoch to epoch.

// Alpha returns the threshold of GPN-S eq. (8): the greatest similarity of the group in epoch 0, falling linearly to
// the smallest at half of the epochs, and below afterwards. At half of the epochs exactly the pair of the smallest
// similarity is still replaced, as the formula has it, although the paper says that none is.
func Alpha(epoch, epochs int, smallest, greatest float64) float64 {
	e, half := float64(epoch), float64(epochs)/2
	return float64((e-half)/-half*greatest) + float64(e/half*smallest)
}

// Replaced says whether a text is due for replacement: when its similarity is alpha or less.
func Replaced(similarity, alpha float64) bool { return similarity <= alpha }

// alpha returns the threshold of a rule for a group in an epoch of the lane. The curriculum runs once: later groups do
// not begin it anew, since the model has learned to align by then (GPN-S section 3.3.1). Behind its end captions stay.
func (o Options) alpha(epoch int64, group *schemas.Group, similarities []float32) float64 {
	switch o.Texts {
	case TextCurriculum:
		if length := o.curriculumEpochs(); epoch < int64(length) {
			return Alpha(int(epoch), length, float64(group.MinSimilarity), float64(group.MaxSimilarity))
		}
	case TextShare:
		return shareAlpha(o.TextShare, similarities)
	case TextAll:
		return math.Inf(1)
	case TextNone:
	}
	return math.Inf(-1)
}

// shareAlpha returns the similarity at or below which a share of the pairs lies: that of pair floor(share * n), counted
// from the lowest. Pairs of the same similarity are replaced together.
func shareAlpha(share float64, similarities []float32) float64 {
	n := int(share * float64(len(similarities)))
	if n == 0 {
		return math.Inf(-1)
	}
	sorted := slices.Clone(similarities)
	slices.Sort(sorted)
	return float64(sorted[n-1])
}
