// Package auc measures how well probabilities tell what is true from what is not.
package auc

import (
	"cmp"
	"slices"
)

// Judgement is the probability that a model gives to a pair, and whether the pair is a true one.
type Judgement struct {
	P    float32
	True bool
}

// Of returns the area under the ROC curve: the chance that a true pair has a higher probability than another. Equal
// ones count half. It is 0.5 where either kind is missing. AUC sorts the judgements.
func Of(all []Judgement) float64 {
	slices.SortFunc(all, func(a, b Judgement) int { return cmp.Compare(a.P, b.P) })
	others, ordered := 0, 0.0 // others so far; pairs in the right order
	for at := 0; at < len(all); {
		end, holding := at, 0
		for ; end < len(all) && all[end].P == all[at].P; end++ {
			if all[end].True {
				holding++
			}
		}
		equal := end - at - holding
		ordered += float64(holding) * (float64(others) + float64(equal)/2)
		others += equal
		at = end
	}
	if others == 0 || others == len(all) {
		return 0.5
	}
	return ordered / (float64(others) * float64(len(all)-others))
}
