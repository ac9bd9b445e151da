// Package interval holds the intervals of counted shares.
package interval

import "math"

const z = 1.959963984540054 // of 95 %

// Wilson returns the 95 % interval of a share of which part of whole were counted. Of nothing it is 0 to 1.
func Wilson(part, whole int) (low, high float64) {
	if whole == 0 {
		return 0, 1
	}
	n, share := float64(whole), float64(part)/float64(whole)
	center := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	low, high = max(0, center-half), min(1, center+half)
	if part == 0 {
		low = 0 // whatever the rounding
	}
	if part == whole {
		high = 1
	}
	return low, high
}

// Share is an estimate of a share, with its 95 % interval.
type Share struct{ Value, Low, High float64 }

// Of returns the share of what was counted, with Wilson's interval. Of nothing it is 0, from 0 to 1.
func Of(part, whole int) Share {
	low, high := Wilson(part, whole)
	return Share{float64(part) / float64(max(whole, 1)), low, high}
}

// Mean returns the mean of shares that were counted apart. The distances of its bounds add up as variances do, each side
// by itself (Zou and Donner 2008), so the bounds of few counts do not draw the interval away from the mean.
func Mean(shares []Share) Share {
	var value, below, above float64
	n := float64(max(len(shares), 1))
	for _, s := range shares {
		value += s.Value / n
		below += (s.Value - s.Low) * (s.Value - s.Low) / (n * n)
		above += (s.High - s.Value) * (s.High - s.Value) / (n * n)
	}
	return Share{value, max(0, value-math.Sqrt(below)), min(1, value+math.Sqrt(above))}
}

// middle returns the middle of the interval, and the variance that its width stands for.
func (s Share) middle() (middle, variance float64) {
	half := (s.High - s.Low) / 2
	return (s.Low + s.High) / 2, half * half / (z * z)
}

// least is the smallest variance of a model's estimate: none is more certain than a count of 10,000.
const least = 0.25 / 10_000

// Pool adds what people have counted of a share to what a model estimates. A count is right but for chance, and a model
// may be wrong. So the model's variance grows by what the two differ more than their variances say, and both are
// weighed by their variances. Where nothing was counted the model's estimate stays, and where a model knows nothing the
// count alone. A few counts can differ much by chance: callers pool from about 20 on.
func Pool(part, whole int, model Share) Share {
	counted := Of(part, whole)
	switch {
	case whole == 0:
		return model
	case model.Low <= 0 && model.High >= 1:
		return counted
	}
	at, varies := counted.middle()
	other, variesToo := model.middle()
	variesToo = max(variesToo, least)
	variesToo = max(variesToo, (at-other)*(at-other)-varies)
	weight := variesToo / (varies + variesToo) // of the count
	middle := weight*at + (1-weight)*other
	half := z * math.Sqrt(varies*variesToo/(varies+variesToo))
	low, high := max(0, middle-half), min(1, middle+half)
	value := weight*counted.Value + (1-weight)*model.Value
	return Share{max(low, min(high, value)), low, high}
}
