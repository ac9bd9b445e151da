package discriminator

import (
	"math"
	"testing"

	"github.com/pairstream/pairstream/internal/base/rng"
	"github.com/pairstream/pairstream/internal/model/torch/torchtest"
	"github.com/pairstream/pairstream/schemas"
)

// A bound is the least similarity of the first matches, and rules nothing out before.
func TestBoundIsLearnedOnMatches(t *testing.T) {
	b := NewBound("m", 0.5)
	b.learn([]float32{0.1, 0.7, 0.6}, []float32{0.49, 0.5, 1})
	if b.Matches != 2 || b.Least != 0.6 || b.rulesOut(-1) {
		t.Errorf("after two matches: %+v", b)
	}
	for range enoughMatches - 3 {
		b.learn([]float32{0.9}, []float32{0.9})
	}
	if b.rulesOut(-1) {
		t.Error("a candidate is ruled out before there are enough matches")
	}
	b.learn([]float32{0.5, 0.2}, []float32{0.9, 0.9})
	if b.Matches != enoughMatches || b.Least != 0.5 {
		t.Errorf("the last match gives %+v, want a bound of 0.5", b)
	}
	for similarity, want := range map[float32]bool{0.5: false, math.Nextafter32(0.5, 0): true, 1: false} {
		if b.rulesOut(similarity) != want {
			t.Errorf("similarity %v is ruled out: %v", similarity, !want)
		}
	}
}

// The number of matches is the first one that promises what is said of it.
func TestMatchesThatAreEnough(t *testing.T) {
	if math.Pow(1-mostMissed, enoughMatches) > 1-certainty || math.Pow(1-mostMissed, enoughMatches-1) <= 1-certainty {
		t.Errorf("%d matches are not the first that are enough", enoughMatches)
	}
}

// Of matches that are alike, more than half a percent lies below the bound in at most 5 % of many lanes.
func TestBoundMissesFewMatches(t *testing.T) {
	const lanes = 1000
	r, above, missed := rng.New(3, "bound"), 0, 0.0
	for range lanes {
		b := NewBound("m", 0.5)
		for !b.learned() {
			b.learn([]float32{r.Float32()}, []float32{1}) // the share below the bound is the bound itself
		}
		missed += float64(b.Least) / lanes
		if b.Least > mostMissed {
			above++
		}
	}
	if above == 0 || above > lanes/20 || missed > mostMissed/2 {
		t.Errorf("in %d of %d lanes more than %v lies below, and on average %.4f", above, lanes, mostMissed, missed)
	}
}

// What counts as a match is said by the level, also where all candidates do.
func TestBoundLearnsFromItsLevel(t *testing.T) {
	for level, want := range map[float64]int{0: 4, 0.3: 3, 0.5: 2, 0.8: 1} {
		b := NewBound("m", level)
		if b.learn([]float32{0, 0, 0, 0}, []float32{0.1, 0.3, 0.5, 0.8}); b.Matches != want {
			t.Errorf("level %v counts %d matches, want %d", level, b.Matches, want)
		}
	}
}

// ruled runs batches with a bound that is learned already, or is learned in them.
func ruled(t *testing.T, d *Discriminator, batches []*schemas.Batch, inputs []Input, bound *Bound) (all []*schemas.ScoredBatch, bounds []Bound) {
	t.Helper()
	kept := NewKept(1<<20, 1<<20)
	for i, b := range batches {
		input := inputs[i]
		input.Kept, input.Bound = kept, bound
		all, bounds = append(all, score(t, d, b, input)), append(bounds, *bound)
	}
	return all, bounds
}

// What is ruled out has probability 0 and is counted, and the others have the bits that they have without a bound. So
// it is behind a new owner, which has the bound of a mark and nothing kept, at every batch, also where the bound is
// being learned.
func TestWhatIsRuledOut(t *testing.T) {
	const n, batch, count = 40, 12, 4
	in := randomInput(n)
	batches, inputs := epochs(n, batch, count, in)
	d := newConD(t, 16)
	open := &Bound{Level: 0.5, Least: 1, Matches: -1 << 20}
	without, _ := ruled(t, d, batches, inputs, open)
	var out, asked int
	for _, wanted := range []int{20, 150} { // matches: from the first batch, and from several
		learning := Bound{Level: 0.5, Least: 1, Matches: enoughMatches - wanted}
		want, bounds := ruled(t, d, batches, inputs, &learning)
		if !learning.learned() || bounds[0].learned() != (wanted == 20) {
			t.Fatalf("bounds %+v: the test says nothing", bounds)
		}
		zeros, others := compareRuled(t, want, without)
		out, asked = out+zeros, asked+others
		if !torchtest.OnCPU() {
			continue // with last bits that differ, a candidate at the bound may come to the other side
		}
		for anew := 1; anew < len(batches); anew += 4 {
			bound := bounds[anew-1]
			got, _ := ruled(t, d, batches[anew:], inputs[anew:], &bound)
			for i, s := range got {
				w := want[anew+i]
				if !torchtest.AllSame(s.ProbI2T, w.ProbI2T) || !torchtest.AllSame(s.ProbT2I, w.ProbT2I) || s.RuledOut != w.RuledOut {
					t.Fatalf("anew at batch %d: batch %d has other values", anew, anew+i)
				}
			}
		}
	}
	if out == 0 || asked == 0 {
		t.Fatalf("%d are ruled out, %d asked about: the test says nothing", out, asked)
	}
}

// compareRuled counts the candidates that were ruled out and the others, whose bits must be those without a bound.
func compareRuled(t *testing.T, got, without []*schemas.ScoredBatch) (out, asked int) {
	t.Helper()
	for i, s := range got {
		zeros := int32(0)
		for _, way := range [][2]schemas.Floats32{{s.ProbI2T, without[i].ProbI2T}, {s.ProbT2I, without[i].ProbT2I}} {
			for k, p := range way[0] {
				switch {
				case torchtest.Same(p, way[1][k]):
					asked++
				case p == 0:
					zeros++
				default:
					t.Fatalf("batch %d: %v, want 0 or %v", i, p, way[1][k])
				}
			}
		}
		if s.RuledOut != zeros {
			t.Errorf("batch %d: %d candidates are ruled out, and %d are 0", i, s.RuledOut, zeros)
		}
		out += int(zeros)
	}
	return out, asked
}
