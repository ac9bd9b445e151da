package evidence

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// kind says how a measure is judged.
type kind uint8

const (
	// difference compares two measures of the same seed.
	difference kind = iota
	// share compares the share of the seeds whose measure is 1 with a bound.
	share
	// coverage compares with a bound the share of the seeds whose interval covers the precision. Only intervals that
	// exclude values on both sides count: one that begins at 0 or ends at 1 can miss on one side alone.
	coverage
)

// kinds are those of the measures that say yes or no.
var kinds = map[string]kind{"covered": coverage, "on": share, "off": share, "right": share}

// Claim says that a measure is larger than another one of the same seed, or that a share of seeds is larger than a
// bound.
type Claim struct {
	Text  string // what the paper says
	More  Point
	Less  Point
	Paper float64 // how many times as large More is in the paper; 0: the verdict does not speak of it
	Bound float64 // instead of Less, when that has no arm
}

// Outcome is one of the verdicts.
type Outcome uint8

// Outcomes. A claim is undecided while its interval reaches to both sides of the bound.
const (
	Unknown Outcome = iota // fewer than two seeds
	Undecided
	Holds
	Opposite
)

// String returns the verdict in a word or two.
func (o Outcome) String() string {
	return [...]string{Unknown: "not shown", Undecided: "undecided", Holds: "holds", Opposite: "the opposite"}[o]
}

// Verdict is what the seeds say about a claim.
type Verdict struct {
	Claim      Claim
	Outcome    Outcome
	Difference Interval // of More and Less, paired by seed
	Times      float64  // mean of More over that of Less
	P          float64  // two-sided: how likely such a difference is by chance where there is none

	Yes, Of   int     // of a share: seeds that count, and those that have it
	Low, High float64 // of a share: interval by Clopper and Pearson
}

// Judge compares a claim with a result.
func (c Claim) Judge(r *Result) Verdict {
	if kinds[c.More.Name] != difference {
		return c.judgeShare(r)
	}
	var differences []float64
	var sumMore, sumLess float64
	for _, run := range r.Runs {
		if more, less, ok := c.sides(run); ok {
			differences = append(differences, more-less)
			sumMore, sumLess = sumMore+more, sumLess+less
		}
	}
	v := Verdict{Claim: c, Difference: NewInterval(differences), Times: sumMore / sumLess, P: 1}
	if v.Difference.N > 1 {
		v.Outcome, v.P = outcome(v.Difference.Low(), v.Difference.High(), 0), v.Difference.p()
	}
	return v
}

// sides returns what a claim compares in a run, and whether the run has both.
func (c Claim) sides(run Run) (more, less float64, ok bool) {
	more, ok = run.at(c.More)
	if c.Less.Arm == "" {
		return more, c.Bound, ok
	}
	less, there := run.at(c.Less)
	return more, less, ok && there
}

// outcome says on which side of a bound an interval lies.
func outcome(low, high, bound float64) Outcome {
	switch {
	case low > bound:
		return Holds
	case high < bound:
		return Opposite
	}
	return Undecided
}

// judgeShare counts the seeds of a share.
func (c Claim) judgeShare(r *Result) Verdict {
	v := Verdict{Claim: c, P: 1}
	for _, run := range r.Runs {
		yes, counts := c.counts(run)
		if counts {
			v.Of++
		}
		if yes {
			v.Yes++
		}
	}
	v.Low, v.High = ClopperPearson(v.Yes, v.Of)
	if v.Of > 1 {
		v.Outcome, v.P = outcome(v.Low, v.High, c.Bound), binomialP(v.Yes, v.Of, c.Bound)
	}
	return v
}

// counts reports whether a seed has what a share counts, and whether it counts at all.
func (c Claim) counts(run Run) (yes, counts bool) {
	if kinds[c.More.Name] == share {
		value, there := run.at(c.More)
		return there && value == 1, there
	}
	low, ok := run.at(Point{c.More.Arm, c.More.X, "low"})
	high, ok2 := run.at(Point{c.More.Arm, c.More.X, "high"})
	truth, ok3 := run.at(Point{c.More.Arm, c.More.X, "precision"})
	counts = ok && ok2 && ok3 && low > 0 && high < 1
	return counts && low <= truth && truth <= high, counts
}

// ClopperPearson returns the exact 95 % interval of a share of which part of whole were counted. Of nothing it is 0 to
// 1.
func ClopperPearson(part, whole int) (low, high float64) {
	low, high = 0, 1
	k, n := float64(part), float64(whole)
	if part > 0 {
		low = distuv.Beta{Alpha: k, Beta: n - k + 1}.Quantile((1 - confidence) / 2)
	}
	if part < whole {
		high = distuv.Beta{Alpha: k + 1, Beta: n - k}.Quantile(1 - (1-confidence)/2)
	}
	return low, high
}

// binomialP returns twice the smaller tail of a count whose share is bound.
func binomialP(part, whole int, bound float64) float64 {
	if bound <= 0 || bound >= 1 {
		return 1
	}
	b := distuv.Binomial{N: float64(whole), P: bound}
	below, above := b.CDF(float64(part)), 1.0
	if part > 0 {
		above = 1 - b.CDF(float64(part-1))
	}
	return min(1, 2*min(below, above))
}

// mostSeeds is where Enough stops to look.
const mostSeeds = 999

// Enough returns how many seeds would decide, if the difference and the deviation over the seeds, or the share, stay
// what they are; 0: more than mostSeeds.
func (v Verdict) Enough() int {
	if kinds[v.Claim.More.Name] != difference {
		for n := max(v.Of, 2); v.Of > 0 && n <= mostSeeds; n++ {
			low, high := ClopperPearson(int(math.Round(float64(v.Yes)/float64(v.Of)*float64(n))), n)
			if outcome(low, high, v.Claim.Bound) != Undecided {
				return n
			}
		}
		return 0
	}
	d := v.Difference
	if d.N < 2 || d.Mean == 0 {
		return 0
	}
	for n := 2; n <= mostSeeds; n++ {
		if math.Abs(d.Mean) > d.Half*halfOf(n)/halfOf(d.N) {
			return n
		}
	}
	return 0
}

// String returns the verdict in a word, with the interval.
func (v Verdict) String() string {
	if v.Outcome == Unknown {
		if kinds[v.Claim.More.Name] == coverage {
			return "not shown: fewer than two seeds have an interval that excludes something on both sides"
		}
		return "not shown: fewer than two seeds"
	}
	said := v.Outcome.String()
	if kinds[v.Claim.More.Name] != difference {
		said += fmt.Sprintf(": %d of %d, a share of %.3f to %.3f", v.Yes, v.Of, v.Low, v.High)
	} else {
		said += ": difference " + v.Difference.Format(1, decimals(v.Difference))
	}
	if v.Claim.Paper > 0 {
		places := 1
		if v.Claim.Paper < 2 { // a gain of some percent
			places = 2
		}
		said += fmt.Sprintf(", %.*f times (the paper: %.*f)", places, v.Times, places, v.Claim.Paper)
	}
	if v.Outcome == Undecided {
		if n := v.Enough(); n > 0 {
			said += fmt.Sprintf("; %d seeds would decide, if it is that large", n)
		} else {
			said += fmt.Sprintf("; %d seeds would not decide", mostSeeds)
		}
	}
	return said
}

// Holm corrects the p of several claims for their number. The chance that any of them is wrongly found below a level is
// then no more than the level.
func Holm(ps []float64) []float64 {
	order := make([]int, len(ps))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out, highest := make([]float64, len(ps)), 0.0
	for rank, i := range order {
		highest = max(highest, min(1, ps[i]*float64(len(ps)-rank)))
		out[i] = highest
	}
	return out
}

// decimals returns how many decimals show the size of an interval.
func decimals(i Interval) int {
	size := math.Max(math.Abs(i.Mean), i.Half)
	if size == 0 {
		return 1
	}
	return min(max(2-int(math.Floor(math.Log10(size))), 0), 6)
}

// confidence of all intervals.
const confidence = 0.95

// Interval is a mean and half the width of its 95 % interval, by Student's t.
type Interval struct {
	Mean, Half float64 // Half is infinite for fewer than two values
	N          int
}

// NewInterval returns the interval of the mean of values from independent seeds.
func NewInterval(values []float64) Interval {
	i := Interval{N: len(values), Half: math.Inf(1)}
	switch {
	case len(values) == 0:
		i.Mean = math.NaN()
	case len(values) == 1:
		i.Mean = values[0]
	default:
		mean, deviation := stat.MeanStdDev(values, nil)
		i.Mean, i.Half = mean, deviation*halfOf(len(values))
	}
	return i
}

// halfOf returns half the width of the interval of n values whose deviation is 1.
func halfOf(n int) float64 {
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}.Quantile(1 - (1-confidence)/2)
	return stat.StdErr(t, float64(n))
}

// p returns how likely a mean at least this far from 0 is, where the truth is 0.
func (i Interval) p() float64 {
	if i.Half == 0 {
		if i.Mean == 0 {
			return 1
		}
		return 0
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(i.N - 1)}
	return 2 * t.CDF(-math.Abs(i.Mean)/i.Half*t.Quantile(1-(1-confidence)/2))
}

// Low returns the lower end.
func (i Interval) Low() float64 { return i.Mean - i.Half }

// High returns the upper end.
func (i Interval) High() float64 { return i.Mean + i.Half }

// Format writes the mean and half of the width, both times a factor, with a number of decimals.
func (i Interval) Format(factor float64, decimals int) string {
	switch i.N {
	case 0:
		return "-"
	case 1:
		return fmt.Sprintf("%.*f", decimals, factor*i.Mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", decimals, factor*i.Mean, decimals, factor*i.Half)
}
