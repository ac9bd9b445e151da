package evidence

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

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
