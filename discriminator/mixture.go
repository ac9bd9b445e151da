package discriminator

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pairstream/pairstream/internal/base/rng"
)

const (
	// clumps is how many candidates count as one draw: a pair is one in both directions, and images and texts recur.
	clumps = 4
	// resamples is how often the counts of pairs of known truth are drawn anew for an interval, and rounds how often the
	// weights of false candidates are fitted.
	resamples, rounds = 40, 25
	// doubt is by how much the logarithm of a likelihood may lie below the highest at 95 %: half the quantile of chi
	// squared.
	doubt = 1
	// unlikely is by how much it lies below that of a better kind of false candidates where a kind is left out.
	unlikely = 8
)

// parts are the shares of the open candidates below the bounds of the bins in which distributions are compared. Bins
// are narrow where true candidates are, and few, so that a hundred pairs tell how they are distributed.
var parts = []float64{0.25, 0.5, 0.75, 0.85, 0.9, 0.925, 0.95, 0.965, 0.98, 0.99}

// bins maps a fine bin to the bin in which distributions are compared.
type bins struct {
	of [steps + 1]int
	n  int
}

// binsOf puts the bounds where parts of the counts lie below them.
func binsOf(c *counts) (b bins) {
	all := c.sum()
	below, part := 0.0, 0
	for fine, n := range c {
		b.of[fine] = b.n
		below += n
		next := part
		for next < len(parts) && below >= parts[next]*all {
			next++
		}
		if next > part && below < all {
			b.n, part = b.n+1, next
		}
	}
	b.n++
	return b
}

// binOf returns the fine bin of a probability: its thousandth, rounded up.
func binOf(p float32) int { return min(thousandthOf(p), steps) }

// counts are how many probabilities lie in each fine bin.
type counts [steps + 1]float64

func countsOf(list []float32) *counts {
	var c counts
	for _, p := range list {
		c[binOf(p)]++
	}
	return &c
}

// drawn resamples the counts, where clump of them make one draw (Poisson bootstrap).
func (c *counts) drawn(clump float64, draws *rand.Rand) *counts {
	var out counts
	for i, n := range c {
		if n > 0 {
			out[i] = clump * poisson(n/clump, draws)
		}
	}
	return &out
}

// poisson draws from the distribution with a mean.
func poisson(mean float64, draws *rand.Rand) float64 {
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*draws.NormFloat64()))
	}
	n, product := 0, draws.Float64()
	for limit := math.Exp(-mean); product > limit; n++ {
		product *= draws.Float64()
	}
	return float64(n)
}

func (c *counts) sum() (all float64) {
	for _, n := range c {
		all += n
	}
	return all
}

// from returns the share of the counts from a fine bin on.
func (c *counts) from(bin int) (rest float64) {
	for _, n := range c[bin:] {
		rest += n
	}
	return rest / max(c.sum(), 1e-9)
}

// density returns the shares of the bins. Half a pair more than was found is spread over all, so that none is 0.
func (c *counts) density(b *bins) []float64 {
	const extra = 0.5
	d := make([]float64, b.n)
	all := extra
	for i, n := range c {
		d[b.of[i]] += n
		all += n
	}
	for i := range d {
		d[i] = (d[i] + extra/float64(len(d))) / all
	}
	return d
}

// mixture describes a lane's candidates as mixtures of pairs whose truth is known. There is one shape for each kind of
// false candidates.
type mixture struct {
	known  Known
	open   *counts // candidates that do not contradict
	shapes []shape
}

// shape is the fitted mixture with one kind of false candidates, and its fits to resampled pairs of known truth.
type shape struct {
	whole fitted
	drawn []fitted
}

// fitted is a mixture that was fitted.
type fitted struct {
	log             float64 // of the likelihood of one candidate
	low, base, high float64 // share of the true ones among the open candidates: the likeliest, and the ends of its interval
	positives       *counts // known positives
}

// right returns the share of true ones among the open candidates from a fine bin on, if base is that among all.
func (m *mixture) right(base float64, positives *counts, bin int) float64 {
	return min(1, base*positives.from(bin)/max(m.open.from(bin), 1e-9))
}

// interval returns the 95 % interval of the share of true ones among the open candidates from a fine bin on.
func (m *mixture) interval(s shape, bin int) (low, high float64) {
	var lows, highs []float64
	for _, f := range s.drawn {
		lows, highs = append(lows, m.right(f.low, f.positives, bin)), append(highs, m.right(f.high, f.positives, bin))
	}
	slices.Sort(lows)
	slices.Sort(highs)
	end := resamples / 20
	return lows[end], highs[resamples-1-end]
}

// fit fits a mixture for each kind of false candidates of which enough is known.
func (k Known) fit() *mixture {
	m := &mixture{known: k, open: countsOf(k.Candidates)}
	for i, n := range countsOf(k.Contradicting) {
		m.open[i] -= n
	}
	if len(k.Positives) < leastKnown {
		return m
	}
	positives, others := countsOf(k.Positives), countsOf(k.Others)
	if len(k.Others) < leastKnown { // nothing is known of easy ones, so they may be as easy as any candidate
		others = new(counts)
		for i, n := range m.open {
			if n > 0 {
				others[i] = leastKnown
				break
			}
		}
	}
	b, n := binsOf(m.open), float64(len(k.Candidates)-len(k.Contradicting))/clumps
	for i, kind := range [][]float32{k.Edited, k.Reworded} {
		if len(kind) < leastKnown {
			continue
		}
		negatives := countsOf(kind)
		s := shape{whole: b.fit(m.open, n, positives, negatives, others)}
		draws := rng.New(0, "discriminator.mixture", int64(i), int64(len(k.Candidates)))
		for range resamples {
			s.drawn = append(s.drawn, b.fit(m.open, n, positives.drawn(1, draws), negatives.drawn(1, draws), others.drawn(1, draws)))
		}
		m.shapes = append(m.shapes, s)
	}
	m.drop(n, b.fit(m.open, n, positives, countsOf(k.Edited), countsOf(k.Reworded), others))
	return m
}

// drop removes reworded captions if edited ones explain n open candidates as well as both do, and far better than
// reworded ones do: false candidates are then as hard as edited captions. Edited ones always stay, so a mistake cannot
// raise the lower end.
func (m *mixture) drop(n float64, both fitted) {
	if len(m.shapes) < 2 {
		return
	}
	edited, reworded := m.shapes[0].whole.log, m.shapes[1].whole.log
	if n*(both.log-edited) < doubt && n*(edited-reworded) > unlikely {
		m.shapes = m.shapes[:1]
	}
}

// fit finds the base rate that maximizes the likelihood of n open candidates, with the best proportions of the kinds of
// false ones (expectation maximisation), and the range of base rates that are not much less likely.
func (b *bins) fit(open *counts, n float64, positives *counts, kinds ...*counts) fitted {
	target, p := open.density(b), positives.density(b)
	var falses [][]float64
	weights := make([]float64, len(kinds))
	for i, k := range kinds {
		falses, weights[i] = append(falses, k.density(b)), 1/float64(len(kinds))
	}
	var bases, logs []float64
	highest := math.Inf(-1)
	for at := 0.0; at <= 1.0001; at += max(0.0025, at/16) {
		base := min(at, 1)
		log := likeliest(target, p, falses, weights, base)
		bases, logs, highest = append(bases, base), append(logs, log), max(highest, log)
	}
	f := fitted{log: highest, low: 1, positives: positives}
	for i, log := range logs {
		if log == highest {
			f.base = bases[i]
		}
		if n*(highest-log) <= doubt {
			f.low, f.high = min(f.low, bases[i]), max(f.high, bases[i])
		}
	}
	return f
}

// likeliest changes the weights of the kinds of false candidates to those that make a target likeliest at a base rate,
// and returns the logarithm of the likelihood.
func likeliest(target, positives []float64, falses [][]float64, weights []float64, base float64) (log float64) {
	next := make([]float64, len(weights))
	for range rounds {
		clear(next)
		for bin, t := range target {
			sum := base * positives[bin]
			for i, f := range falses {
				sum += (1 - base) * weights[i] * f[bin]
			}
			for i, f := range falses {
				next[i] += t * (1 - base) * weights[i] * f[bin] / sum
			}
		}
		all := 0.0
		for i := range next {
			next[i] = max(next[i], 1e-6)
			all += next[i]
		}
		for i := range weights {
			weights[i] = next[i] / all
		}
	}
	for bin, t := range target {
		sum := base * positives[bin]
		for i, f := range falses {
			sum += (1 - base) * weights[i] * f[bin]
		}
		log += t * math.Log(sum)
	}
	return log
}
