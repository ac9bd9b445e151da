package grouper

import (
	"math"
	"math/bits"
	"sync"
)

// Logarithms in units of 2^-24, the same on every machine: they come from tables of integers, between whose entries a
// straight line runs. An entry is a float64 result that is rounded far from the middle between two units, so that
// another machine's last bits do not change it.

const (
	unitBits  = 24
	tableBits = 12 // intervals of the range of one, as a power of two
)

// table holds a function at equal steps.
type table []int64

// newTable computes entries of a function: those of from, from + 2^-12, ... to.
func newTable(from, to float64, f func(float64) float64) table {
	t := make(table, int((to-from)*(1<<tableBits))+1)
	for i := range t {
		t[i] = int64(math.Round(f(from+float64(i)/(1<<tableBits)) * (1 << unitBits)))
	}
	return t
}

// at returns the value at a number of units behind the first entry.
func (t table) at(units int64) int64 {
	const within = unitBits - tableBits
	i, rest := units>>within, units&(1<<within-1)
	if int(i) >= len(t)-1 {
		return t[len(t)-1]
	}
	return t[i] + (t[i+1]-t[i])*rest>>within
}

// Scale and bias of the sigmoid loss: the first values of SigLIP's (Zhai et al. 2023, algorithm 1).
const (
	lossScale = 10
	lossBias  = -10
)

// softplus holds log(1 + exp(a s + c)) for similarities s of -1 to 1.
var softplus = sync.OnceValue(func() table {
	return newTable(-1, 1, func(s float64) float64 { return math.Log1p(math.Exp(lossScale*s + lossBias)) })
})

// similarityUnits rounds a similarity, within -1 and 1.
func similarityUnits(product float32) int64 {
	return int64(math.Floor(float64(max(-1, min(1, product)))*(1<<unitBits) + 0.5))
}

// unmatched returns the loss of an image and another pair's text.
func unmatched(product float32) int64 { return softplus().at(similarityUnits(product) + 1<<unitBits) }

// matched returns the loss of a pair's own image and text: log(1 + exp(-x)) = log(1 + exp(x)) - x.
func matched(product float32) int64 {
	return unmatched(product) - lossScale*similarityUnits(product) - lossBias<<unitBits
}

// mantissas holds -log(m) for m of 1/2 to 1.
var mantissas = sync.OnceValue(func() table { return newTable(0.5, 1, func(m float64) float64 { return -math.Log(m) }) })

// minusLog returns -log(x / 2^64) for x above 0.
func minusLog(x uint64) int64 {
	shift := bits.LeadingZeros64(x)
	m := int64(x << shift >> (64 - unitBits)) // in units: 1/2 or more, below 1
	return int64(shift)*ln2 + mantissas().at(m-1<<(unitBits-1))
}

const ln2 = 11629080 // in units

// gumbel returns a standard Gumbel variate, -log(-log(u)), from a uniform number.
func gumbel(u uint64) int64 {
	exponential := max(1, minusLog(max(1, u)))
	return minusLog(uint64(exponential)) - (64-unitBits)*ln2
}
