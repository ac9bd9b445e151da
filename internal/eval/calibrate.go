package eval

import (
	"errors"
	"math"

	"github.com/pairstream/pairstream/internal/model"
)

// The slopes that are tried, in equal steps of their logarithm. A slope is one over the temperature. A network is sure too
// early, as a rule, and a slope above 2 would make it surer.
const (
	leastSlope = 0.1
	mostSlope  = 2.0
	slopes     = 61
	bisections = 50
)

// Calibrate fits a temperature and an offset, so that probabilities hold among hard pairs of which the base rate is true. For
// every temperature there is one offset with which the mean of the probabilities is the base rate. The likelihood chooses
// among them.
//
// Where the truth is known, it is that of a logistic regression on the hard pairs. Elsewhere own pairs stand for the true ones
// among the hard, and nobody knows which these are. To take all hard pairs for wrong ones would be an error of the size of the
// base rate, and no pair would ever be likely. So the likelihood is that of telling own pairs from hard ones: with as many own
// pairs as there are true hard ones, the odds of an own pair are p, the probability that a hard pair with its score is true.
func (c *Cond) Calibrate() (*model.Calibration, error) {
	known, hard := scores(c.positives()), scores(c.Hard)
	if len(known) == 0 || len(hard) == 0 || c.BaseRate <= 0 || c.BaseRate >= 1 {
		return nil, errors.New("calibrating Con-D: no hard pairs, or none that is true, want both")
	}
	found := &model.Calibration{BaseRate: c.BaseRate, Pairs: len(known) + len(hard)}
	most := math.Inf(-1)
	for i := range slopes {
		slope := leastSlope * math.Pow(mostSlope/leastSlope, float64(i)/(slopes-1))
		offset := offsetOf(hard, slope, c.BaseRate)
		if l := c.likelihood(known, hard, slope, offset); l > most {
			most, found.Temperature, found.Offset = l, 1/slope, offset
		}
	}
	return found, nil
}

// likelihood returns the logarithm of a likelihood, for a hard pair in the mean.
func (c *Cond) likelihood(known, hard []float64, slope, offset float64) float64 {
	right, wrong := math.Log, func(p float64) float64 { return math.Log1p(-p) } // of true hard pairs, and of the others
	if !c.Known {
		right, wrong = func(p float64) float64 { return math.Log(p) - math.Log1p(p) }, func(p float64) float64 { return -math.Log1p(p) }
	}
	const least = 1e-12 // so that no pair alone decides
	sum := func(scores []float64, of func(float64) float64) float64 {
		total := 0.0
		for _, z := range scores {
			total += of(min(max(logistic(slope*z+offset), least), 1-least))
		}
		return total / float64(len(scores))
	}
	l := c.BaseRate*sum(known, right) + sum(hard, wrong)
	if c.Known { // hard has the true pairs as well
		l -= c.BaseRate * sum(known, wrong)
	}
	return l
}

// positives returns the pairs that are true as the hard ones are.
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

// offsetOf returns the offset with which the probabilities have a mean of base.
func offsetOf(hard []float64, slope, base float64) float64 {
	most := 50.0
	for _, z := range hard {
		most = max(most, 50+math.Abs(slope*z))
	}
	return bisect(-most, most, func(offset float64) bool {
		sum := 0.0
		for _, z := range hard {
			sum += logistic(slope*z + offset)
		}
		return sum/float64(len(hard)) > base
	})
}

// bisect returns where a function becomes true, or the bound at which it is not true yet or true already.
func bisect(low, high float64, reached func(float64) bool) float64 {
	if reached(low) {
		return low
	}
	if !reached(high) {
		return high
	}
	for range bisections {
		if middle := (low + high) / 2; reached(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return (low + high) / 2
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func scores(all []Asked) []float64 {
	out := make([]float64, len(all))
	for i, a := range all {
		out[i] = a.Score
	}
	return out
}

// Thresholds are the probabilities at which [Cond.Report] counts. 0.8 is MAFA's.
var Thresholds = []float64{0.5, 0.8, 0.9, 0.95}

// CondReport is how well a connection discriminator tells pairs apart.
type CondReport struct {
	Images  int     `json:"images"`
	Texts   int     `json:"texts"`
	EasyAUC float64 `json:"easy_auc"` // own pairs against texts with images drawn at random
	HardAUC float64 `json:"hard_auc"` // own pairs against the most similar others
	// CandidateAUC tells the true hard pairs from the others; nil: the truth is not known, or all are of one kind.
	CandidateAUC *float64 `json:"candidate_auc,omitempty"`
	BaseRate     float64  `json:"base_rate"` // share of true pairs among the hard ones, counted or declared
	Counted      bool     `json:"counted"`   // whether it was counted
	// CalibrationError is the mean distance of a hard pair's probability from the share of true pairs at that probability.
	CalibrationError float64            `json:"calibration_error"`
	Calibration      *model.Calibration `json:"calibration,omitempty"` // that is applied; nil: none
	Above            []Above            `json:"above"`
}

// Above counts the pairs with a probability above a threshold.
type Above struct {
	High float64 `json:"high"`
	Own  float64 `json:"own"`  // share of own pairs
	Hard float64 `json:"hard"` // share of hard pairs
	// Precision is the share of true ones of these hard pairs, and Recall that of these of all true ones; nil: not known.
	Precision *float64 `json:"precision,omitempty"`
	Recall    *float64 `json:"recall,omitempty"`
}

// Report measures the answers with a calibration, or without one.
func (c *Cond) Report(calibration *model.Calibration) *CondReport {
	r := &CondReport{
		Images: c.Images, Texts: c.Texts, EasyAUC: c.EasyAUC(), HardAUC: c.HardAUC(), BaseRate: c.BaseRate, Counted: c.Known,
		Calibration: calibration, CalibrationError: c.calibrationError(calibration),
	}
	truth := len(c.positives())
	if c.Known && truth > 0 && truth < len(c.Hard) {
		auc := c.CandidateAUC()
		r.CandidateAUC = &auc
	}
	for _, high := range Thresholds {
		above := func(a Asked) bool { return logistic(calibration.Score(a.Score)) > high }
		v := Above{High: high, Own: shareOf(c.Own, above), Hard: shareOf(c.Hard, above)}
		if found := v.Hard * float64(len(c.Hard)); c.Known {
			right := shareOf(c.Hard, func(a Asked) bool { return a.True && above(a) }) * float64(len(c.Hard))
			if found > 0 {
				precision := right / found
				v.Precision = &precision
			}
			if truth > 0 {
				recall := right / float64(truth)
				v.Recall = &recall
			}
		}
		r.Above = append(r.Above, v)
	}
	return r
}

// calibrationError puts the hard pairs into ten bins of equal width, by probability. Where the truth is not known, own pairs
// stand for the true ones, as in [Cond.Calibrate].
func (c *Cond) calibrationError(calibration *model.Calibration) float64 {
	const bins = 10
	var hard, sum, right [bins]float64
	bin := func(a Asked) (int, float64) {
		p := logistic(calibration.Score(a.Score))
		return min(int(p*bins), bins-1), p
	}
	for _, a := range c.Hard {
		i, p := bin(a)
		hard[i]++
		sum[i] += p
	}
	positives := c.positives()
	for _, a := range positives {
		i, _ := bin(a)
		right[i] += c.BaseRate * float64(len(c.Hard)) / float64(len(positives))
	}
	off := 0.0
	for i := range hard {
		off += math.Abs(sum[i] - min(right[i], hard[i]))
	}
	return off / float64(max(1, len(c.Hard)))
}
