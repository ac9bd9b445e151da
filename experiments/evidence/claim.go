package evidence

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Claim says that a measure is larger than another one of the same seed.
type Claim struct {
	Text  string // what the paper says
	More  Point
	Less  Point
	Paper float64 // how many times as large More is in the paper; 0: the verdict does not speak of it
	Bound float64 // instead of Less, when that has no arm
}

// Verdict is what the seeds say about a claim.
type Verdict struct {
	Claim      Claim
	Difference Interval // of More and Less, paired by seed
	Times      float64  // mean of More over that of Less
	Holds      bool
}

// Judge compares a claim with a result.
func (c Claim) Judge(r *Result) Verdict {
	var differences []float64
	var sumMore, sumLess float64
	for _, run := range r.Runs {
		more, ok := run.at(c.More)
		less, ok2 := run.at(c.Less)
		if c.Less.Arm == "" {
			less, ok2 = c.Bound, true
		}
		if ok && ok2 {
			differences = append(differences, more-less)
			sumMore, sumLess = sumMore+more, sumLess+less
		}
	}
	v := Verdict{Claim: c, Difference: NewInterval(differences), Times: sumMore / sumLess}
	v.Holds = v.Difference.N > 1 && v.Difference.Low() > 0
	return v
}

// mostSeeds is where Enough stops to look.
const mostSeeds = 999

// Enough returns how many seeds would show the difference, if it and the deviation over the seeds stay what they are; 0:
// more than mostSeeds, or the difference points the other way.
func (v Verdict) Enough() int {
	d := v.Difference
	if d.N < 2 || d.Mean <= 0 {
		return 0
	}
	for n := 2; n <= mostSeeds; n++ {
		if d.Mean > d.Half*halfOf(n)/halfOf(d.N) {
			return n
		}
	}
	return 0
}

// String returns the verdict in a word, with the interval.
func (v Verdict) String() string {
	word := "does not hold"
	switch {
	case v.Difference.N < 2:
		return "not shown: fewer than two seeds"
	case v.Holds:
		word = "holds"
	}
	said := fmt.Sprintf("%s: difference %s", word, v.Difference.Format(1, decimals(v.Difference)))
	if v.Claim.Paper > 0 {
		places := 1
		if v.Claim.Paper < 2 { // a gain of some percent
			places = 2
		}
		said += fmt.Sprintf(", %.*f times (the paper: %.*f)", places, v.Times, places, v.Claim.Paper)
	}
	return said
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
