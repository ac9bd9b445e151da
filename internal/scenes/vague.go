package scenes

import (
	"math"
	"math/rand/v2"
	"sync"

	"github.com/pairstream/pairstream/internal/rng"
)

// Bounds of Options.FalseNegatives.
const (
	leastFalseNegatives = 0.02
	mostFalseNegatives  = 0.4
)

// graded makes a true statement: with the given probability a vague one, which names one object alone, and otherwise one
// that tells nearly all.
func (s Scene) graded(vague float64, rng *rand.Rand) Statement {
	if rng.Float64() < vague {
		o := pick(rng, s.Objects)
		return Statement{Things: []Thing{{Colour: o.Colour, Shape: o.Shape}}}
	}
	if rng.IntN(2) == 0 {
		return s.enumeration(rng)
	}
	for {
		two := rng.Perm(len(s.Objects))
		a, b, r := s.Objects[two[0]], s.Objects[two[1]], pick(rng, Relations)
		if r.between(a, b) {
			return Statement{Things: []Thing{a.described(), b.described()}, Relation: r}
		}
	}
}

// described tells everything about an object except its size.
func (o Object) described() Thing { return Thing{Pattern: o.Pattern, Colour: o.Colour, Shape: o.Shape} }

const (
	others        = 95   // in a mini-batch of 96
	sampledScenes = 500  // by which the share of vague statements is found
	sampledTexts  = 3000 // of other scenes, of either kind
)

// fits holds, for some scenes, the shares of other scenes' vague and detailed statements that are true of them.
type fits struct{ vague, detailed float64 }

// sampledFits samples scenes and statements. They are the same in every process.
var sampledFits = sync.OnceValue(func() []fits {
	r := rng.New(1, "vague scenes")
	kinds := Kinds{several: true}
	var vague, detailed []Statement
	for range sampledTexts {
		s := kinds.Random(r)
		vague, detailed = append(vague, s.graded(1, r)), append(detailed, s.graded(0, r))
	}
	share := func(s Scene, texts []Statement) float64 {
		n := 0
		for _, st := range texts {
			if st.Holds(s) {
				n++
			}
		}
		return float64(n) / float64(len(texts))
	}
	out := make([]fits, sampledScenes)
	for i := range out {
		s := kinds.Random(r)
		out[i] = fits{share(s, vague), share(s, detailed)}
	}
	return out
})

var vagueShares sync.Map // by share of false negatives

// vagueShare returns the share of vague statements that makes a share of the pictures fit one of 95 others' statements.
func vagueShare(falseNegatives float64) float64 {
	if found, ok := vagueShares.Load(falseNegatives); ok {
		return found.(float64) //nolint:forcetypeassert // the map holds nothing else
	}
	low, high := 0.0, 1.0
	for range 30 {
		middle := (low + high) / 2
		if reached(middle) < falseNegatives {
			low = middle
		} else {
			high = middle
		}
	}
	vagueShares.Store(falseNegatives, low)
	return low
}

// reached returns the share of false negatives that a share of vague statements leads to.
func reached(vague float64) float64 {
	sum := 0.0
	for _, f := range sampledFits() {
		sum += 1 - math.Pow(1-vague*f.vague-(1-vague)*f.detailed, others)
	}
	return sum / sampledScenes
}
