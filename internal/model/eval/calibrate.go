package eval

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/pairstream/pairstream/internal/base/interval"
	"github.com/pairstream/pairstream/internal/model/model"
)

// binPairs is the number of hard pairs that share a bin.
const binPairs = 25

// Calibrate fits probabilities that are right among hard pairs with the true base rate. They are the shares of true
// pairs in bins of the hard pairs, by score, made to rise with the score (isotonic regression).
//
// If the truth is not known, own pairs represent the true hard pairs, base rate x hard pairs of them in total. They are
// weighted: an own pair counts once for each of its [Asked.Rivals]. A text that is also true of other images has
// rivals, and a matching head that has met them as negatives doubts its own pair too. Counting every hard pair as wrong
// would be an error as large as the base rate, and no pair would ever be likely.
func (c *Cond) Calibrate() (*model.Calibration, error) {
	known := c.positives()
	if len(known) == 0 || len(c.Hard) == 0 || c.BaseRate <= 0 || c.BaseRate >= 1 {
		return nil, errors.New("calibrating Con-D: no hard pairs, or none that is true, want both")
	}
	bins := binsOf(c.Hard)
	for _, k := range c.weighed(known) {
		at, _ := slices.BinarySearchFunc(bins, k.score, func(b bin, score float64) int { return cmp.Compare(b.highest, score) })
		bins[min(at, len(bins)-1)].right += k.weight
	}
	fitted := &model.Calibration{BaseRate: c.BaseRate, Pairs: len(known) + len(c.Hard)}
	for _, b := range rising(bins) {
		for _, z := range slices.Compact([]float64{b.lowest, b.highest}) {
			fitted.Differences = append(fitted.Differences, z)
			fitted.Probabilities = append(fitted.Probabilities, min(1, b.right/b.pairs))
		}
	}
	return fitted, fitted.Validate()
}

// bin holds hard pairs with neighbouring scores.
type bin struct {
	lowest, highest float64 // scores
	pairs, right    float64 // all, and the true ones
}

// binsOf sorts hard pairs into bins, from the highest score down. Equal scores share a bin. The lowest bin takes the
// rest.
func binsOf(hard []Asked) []bin {
	scores := make([]float64, len(hard))
	for i, a := range hard {
		scores[i] = a.Score
	}
	slices.Sort(scores)
	var bins []bin
	for at := len(scores); at > 0; {
		from := max(0, at-binPairs)
		for from > 0 && scores[from-1] == scores[from] {
			from--
		}
		if from < binPairs {
			from = 0
		}
		bins = append(bins, bin{lowest: scores[from], highest: scores[at-1], pairs: float64(at - from)})
		at = from
	}
	slices.Reverse(bins)
	return bins
}

// weighted is a score with the number of true hard pairs that it represents.
type weighted struct{ score, weight float64 }

// weighed weights the own pairs to represent the true hard ones. The weights add up to the base rate of the hard pairs.
func (c *Cond) weighed(known []Asked) []weighted {
	total := 0.0
	out := make([]weighted, len(known))
	for i, a := range known {
		out[i] = weighted{a.Score, 1}
		if !c.Known {
			out[i].weight = float64(a.Rivals)
		}
		total += out[i].weight
	}
	for i := range out {
		if total == 0 { // no pair has a rival
			out[i].weight = c.BaseRate * float64(len(c.Hard)) / float64(len(out))
			continue
		}
		out[i].weight *= c.BaseRate * float64(len(c.Hard)) / total
	}
	return out
}

// rising merges neighbouring bins until the share of true pairs rises from bin to bin.
func rising(bins []bin) []bin {
	var out []bin
	for _, b := range bins {
		out = append(out, b)
		for n := len(out); n > 1 && out[n-2].right*out[n-1].pairs >= out[n-1].right*out[n-2].pairs; n = len(out) {
			last := out[n-1]
			out = out[:n-1]
			out[n-2].highest = last.highest
			out[n-2].pairs += last.pairs
			out[n-2].right += last.right
		}
	}
	return out
}

// positives returns the pairs that represent the true hard ones.
func (c *Cond) positives() []Asked {
	if !c.Known {
		return c.Own
	}
	var found []Asked
	for _, a := range c.Hard {
		if a.True {
			found = append(found, a)
		}
	}
	return found
}

// Thresholds are the probabilities at which [Cond.Report] counts. 0.8 is MAFA's.
var Thresholds = []float64{0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99}

// CondReport measures how well a connection discriminator tells pairs apart.
type CondReport struct {
	Images  int     `json:"images"`
	Texts   int     `json:"texts"`
	EasyAUC float64 `json:"easy_auc"` // own pairs against texts with images drawn at random
	HardAUC float64 `json:"hard_auc"` // own pairs against the most similar others
	// CandidateAUC is the AUC of true hard pairs against the others; nil: the truth is not known, or all are of one
	// kind.
	CandidateAUC *float64 `json:"candidate_auc,omitempty"`
	BaseRate     float64  `json:"base_rate"` // share of true pairs among the hard ones, counted or declared
	Counted      bool     `json:"counted"`   // whether it was counted
	// CalibrationError is the mean distance of a hard pair's probability from the share of true pairs at that probability.
	CalibrationError float64            `json:"calibration_error"`
	Calibration      *model.Calibration `json:"calibration,omitempty"` // the applied calibration; nil: none
	Above            []Above            `json:"above"`
	// Falls is the highest threshold at which precision is certainly lower than at some lower threshold: the intervals
	// do not overlap. Raising the threshold to it makes connections worse. nil: there is none, or the truth is not
	// known.
	Falls *float64 `json:"falls,omitempty"`
	// Bins hold the hard pairs by probability, ten of equal width, without empty ones.
	Bins []Bin `json:"bins"`
}

// Bin holds hard pairs of similar probability.
type Bin struct {
	Low   float64 `json:"low"` // probabilities
	High  float64 `json:"high"`
	Pairs int     `json:"pairs"`
	Mean  float64 `json:"mean"` // probability
	// True is the share of true pairs; if the truth is not known, own pairs represent them as in [Cond.Calibrate].
	True float64 `json:"true"`
}

// Above counts the pairs with a probability above a threshold.
type Above struct {
	High float64 `json:"high"`
	Own  float64 `json:"own"`  // share of own pairs
	Hard float64 `json:"hard"` // share of hard pairs
	// Precision is the share of true pairs among these hard pairs, and Recall their share of all true ones; nil: not
	// known.
	Precision *float64 `json:"precision,omitempty"`
	Recall    *float64 `json:"recall,omitempty"`
	// From and To are the 95 % interval of the precision (Wilson's), treating pairs as independent.
	From float64 `json:"from,omitempty"`
	To   float64 `json:"to,omitempty"`
}

// Report measures the answers, with a calibration or without.
func (c *Cond) Report(calibration *model.Calibration) *CondReport {
	r := &CondReport{
		Images: c.Images, Texts: c.Texts, EasyAUC: c.EasyAUC(), HardAUC: c.HardAUC(), BaseRate: c.BaseRate, Counted: c.Known,
		Calibration: calibration,
	}
	r.Bins, r.CalibrationError = c.bins(calibration)
	truth := len(c.positives())
	if c.Known && truth > 0 && truth < len(c.Hard) {
		auc := c.CandidateAUC()
		r.CandidateAUC = &auc
	}
	for _, high := range Thresholds {
		above := func(a Asked) bool { return calibration.Of(a.Score) > high }
		v := Above{High: high, Own: shareOf(c.Own, above), Hard: shareOf(c.Hard, above)}
		if found := count(c.Hard, above); c.Known {
			right := count(c.Hard, func(a Asked) bool { return a.True && above(a) })
			if found > 0 {
				precision := float64(right) / float64(found)
				v.Precision = &precision
				v.From, v.To = interval.Wilson(right, found)
			}
			if truth > 0 {
				recall := float64(right) / float64(truth)
				v.Recall = &recall
			}
		}
		r.Above = append(r.Above, v)
	}
	r.Falls = falls(r.Above)
	return r
}

// falls returns the highest threshold at which precision is certainly lower than at some lower one.
func falls(curve []Above) (at *float64) {
	highest := 0.0 // lower end so far
	for _, v := range curve {
		if v.Precision != nil && v.To < highest {
			at = &v.High
		}
		highest = max(highest, v.From)
	}
	return at
}

// bins puts the hard pairs into ten bins of equal width, by probability, and returns the mean distance of probabilities
// from the share of true pairs. If the truth is not known, own pairs represent the true ones, as in [Cond.Calibrate].
func (c *Cond) bins(calibration *model.Calibration) (list []Bin, off float64) {
	const parts = 10
	var hard, sum, right [parts]float64
	part := func(p float64) int { return min(int(p*parts), parts-1) }
	for _, a := range c.Hard {
		p := calibration.Of(a.Score)
		hard[part(p)]++
		sum[part(p)] += p
	}
	for _, k := range c.weighed(c.positives()) {
		right[part(calibration.Of(k.score))] += k.weight
	}
	for i := range hard {
		found := min(right[i], hard[i])
		off += math.Abs(sum[i] - found)
		if hard[i] > 0 {
			list = append(list, Bin{float64(i) / parts, float64(i+1) / parts, int(hard[i]), sum[i] / hard[i], found / hard[i]})
		}
	}
	return list, off / float64(max(1, len(c.Hard)))
}
