package grouper

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pairstream/pairstream/internal/model/safetensors"
	"github.com/pairstream/pairstream/internal/neighbors/dotproduct"
	"github.com/pairstream/pairstream/internal/testing/golden"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// oracle is a file of testdata that a script there has computed.
type oracle struct {
	*safetensors.File
	t *testing.T
}

func openOracle(t *testing.T, name string) oracle {
	return oracle{must.Get(safetensors.Open(golden.Testdata(t, name)))(t), t}
}

func (o oracle) tensor(name string) safetensors.Tensor {
	o.t.Helper()
	x, ok := o.Tensor(name)
	if !ok {
		o.t.Fatalf("no tensor %s", name)
	}
	return x
}

func (o oracle) numbers(name string) []int32 { return int32s(must.Get(o.tensor(name).Int64s())(o.t)) }

func (o oracle) rows(name string) *dotproduct.Matrix {
	x := o.tensor(name)
	values := must.Get(x.Float32s())(o.t)
	m := dotproduct.NewMatrix(int(x.Shape[0]), int(x.Shape[1]))
	for i := range m.Rows() {
		copy(m.Row(i), values[i*m.Dim():])
	}
	return m
}

// recordedJEST plays back the draws of testdata/jest.py.
type recordedJEST struct {
	order []int32
	noise []float64 // super-batches x chunks x pairs
	shape []int64
}

func (r recordedJEST) Order(int) []int32 { return slices.Clone(r.order) }

func (r recordedJEST) Gumbel(superBatch int) func() int64 {
	chunks, pairs := int(r.shape[1]), int(r.shape[2])
	here := min(pairs, len(r.order)-superBatch*pairs)
	at := 0
	return func() int64 {
		chunk, i := at/here, at%here
		at++
		return int64(math.Round(r.noise[(superBatch*chunks+chunk)*pairs+i] * (1 << unitBits)))
	}
}

func TestJESTIsThePapersAlgorithm(t *testing.T) {
	f := openOracle(t, "jest.safetensors")
	noise := f.tensor("noise")
	draws := recordedJEST{f.numbers("order"), must.Get(noise.Float64s())(t), nil}
	draws.shape = noise.Shape
	rule := JESTRule{int(f.numbers("batch_size")[0]), must.Get(f.tensor("filter").Float64s())(t)[0], 2}
	learner, reference := rows{f.rows("learner.v"), f.rows("learner.t")}, rows{f.rows("reference.v"), f.rows("reference.t")}
	plan := must.Get(JEST(t.Context(), learner, reference, f.numbers("image"), rule, draws))(t)
	if want := f.numbers("plan"); !slices.Equal(plan.Order, want) {
		t.Errorf("got  %d\nwant %d", plan.Order, want)
	}
	blind := must.Get(JEST(t.Context(), reference, reference, f.numbers("image"), rule, draws))(t)
	if slices.Equal(blind.Order, plan.Order) {
		t.Error("the learner's features make no difference")
	}
}

// No entry of the tables lies near the middle of two integers, so every machine's exp and log round it alike.
func TestLogarithmsAreTheSameOnEveryMachine(t *testing.T) {
	for name, c := range map[string]struct {
		table table
		from  float64
		f     func(float64) float64
	}{
		"softplus":  {softplus(), -1, func(s float64) float64 { return math.Log1p(math.Exp(10*s - 10)) }},
		"mantissas": {mantissas(), 0.5, func(m float64) float64 { return -math.Log(m) }},
	} {
		for i, got := range c.table {
			exact := c.f(c.from+float64(i)/(1<<tableBits)) * (1 << unitBits)
			if off := math.Abs(exact - float64(got)); off > 0.5-1e-6 {
				t.Errorf("%s: entry %d is %v units, too close to the middle of two integers", name, i, exact)
			}
		}
	}
}

func TestLogarithmsAreClose(t *testing.T) {
	const unit = 1.0 / (1 << unitBits)
	near := func(what string, got int64, want, most float64) {
		t.Helper()
		if off := math.Abs(float64(got)*unit - want); off > most {
			t.Errorf("%s: %g, want %g", what, float64(got)*unit, want)
		}
	}
	for _, s := range []float32{-1.01, -1, -0.3333, 0, 0.07, 0.5, 0.98765, 1, 1.0001} {
		x := 10*float64(max(-1, min(1, s))) - 10
		near(fmt.Sprint("unmatched ", s), unmatched(s), math.Log1p(math.Exp(x)), 1e-6)
		near(fmt.Sprint("matched ", s), matched(s), math.Log1p(math.Exp(-x)), 1e-6)
	}
	for _, u := range []uint64{1, 2, 3, 1 << 20, 1<<40 + 12345, 1 << 63, math.MaxUint64 / 3 * 2, math.MaxUint64} {
		near(fmt.Sprint("log of ", u), minusLog(u), -math.Log(float64(u)/(1<<64)), 4e-7)
	}
}

// Gumbel variates have the mean and the variance of their distribution: Euler's constant and pi squared over 6.
func TestGumbelVariates(t *testing.T) {
	const n = 200_000
	draw := testKey.jestDraws().Gumbel(3)
	sum, squares := 0.0, 0.0
	for range n {
		x := float64(draw()) / (1 << unitBits)
		sum, squares = sum+x, squares+x*x
	}
	mean := sum / n
	if variance := squares/n - mean*mean; math.Abs(mean-0.57722) > 0.015 || math.Abs(variance-1.64493) > 0.04 {
		t.Errorf("mean %v, variance %v, want 0.577 and 1.645", mean, variance)
	}
	if low, high := gumbel(0), gumbel(math.MaxUint64); low >= 0 || high <= 0 {
		t.Errorf("the ends are %d and %d", low, high)
	}
}

// Of pairs that the reference knows and the learner does not, JEST keeps more than its share, and of those that neither
// or both know, fewer.
func TestJESTKeepsTheLearnable(t *testing.T) {
	const n, dim = 600, 16
	v, text := features(n, dim, n, 1, 1), features(n, dim, n, 1, 2)
	known := func(which func(int) bool) rows {
		r := rows{dotproduct.NewMatrix(n, dim), dotproduct.NewMatrix(n, dim)}
		for i := range n {
			copy(r.v.Row(i), v.Row(i))
			copy(r.t.Row(i), text.Row(i))
			if which(i) {
				copy(r.t.Row(i), v.Row(i))
			}
		}
		return r
	}
	learner, reference := known(func(i int) bool { return i%3 == 1 }), known(func(i int) bool { return i%3 > 0 })
	rule := JESTRule{BatchSize: 20, Filter: 0.5, Workers: 1}
	kept := make([]int, 3) // neither knows them, both do, the reference alone does
	for seed := range uint64(5) {
		for _, p := range must.Get(JEST(t.Context(), learner, reference, distinct(n), rule, Key{Seed: seed}.jestDraws()))(t).Order {
			kept[p%3]++
		}
	}
	if kept[2] < 900 || kept[0] > 400 || kept[1] > 400 {
		t.Errorf("of 1000 pairs each, %d that neither knows, %d that both know and %d that the reference knows are kept", kept[0], kept[1], kept[2])
	}
}

func TestJESTDrawsPairsWithoutFeaturesLast(t *testing.T) {
	learner, reference := rows{features(40, 8, 4, 1, 1), features(40, 8, 4, 1, 2)}, rows{features(40, 8, 4, 1, 3), features(40, 8, 4, 1, 4)}
	for i := range 30 {
		clear(learner.v.Row(i))
		clear(learner.t.Row(i))
	}
	rule := JESTRule{BatchSize: 20, Filter: 0.5, Workers: 1}
	plan := must.Get(JEST(t.Context(), learner, reference, distinct(40), rule, recordedJEST{distinct(40), make([]float64, 2*16*40), []int64{1, 16, 40}}))(t)
	if got := slices.Sorted(slices.Values(plan.Order[:10])); !slices.Equal(got, []int32{30, 31, 32, 33, 34, 35, 36, 37, 38, 39}) {
		t.Errorf("the first ten are %d, want those with features", got)
	}
}

func TestJESTCounts(t *testing.T) {
	for _, c := range []struct {
		rule               JESTRule
		super, pairs, kept int
	}{
		{JESTRule{96, 0.8, 1}, 480, 480, 96},
		{JESTRule{96, 0.8, 1}, 480, 960, 192},
		{JESTRule{96, 0.8, 1}, 480, 481, 97},
		{JESTRule{96, 0.8, 1}, 480, 1, 1},
		{JESTRule{96, 0.8, 1}, 480, 0, 0},
		{JESTRule{96, 0.5, 1}, 192, 191, 96},
		{JESTRule{8, 0.9, 1}, 80, 1000, 100},
		{JESTRule{3, 0.3, 1}, 4, 7, 6},
	} {
		if super, kept := c.rule.superBatch(), c.rule.kept(c.pairs); super != c.super || kept != c.kept {
			t.Errorf("%+v: super-batches of %d, and %d of %d pairs are kept, want %d and %d", c.rule, super, kept, c.pairs, c.super, c.kept)
		}
	}
}

func TestJESTStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := rows{features(8, 4, 1, 1, 1), features(8, 4, 1, 1, 2)}
	rule := JESTRule{2, 0.5, 1}
	if plan, err := JEST(ctx, f, f, distinct(8), rule, testKey.jestDraws()); !errors.Is(err, context.Canceled) || plan.Order != nil {
		t.Errorf("got %v, %v", plan, err)
	}
	if _, err := JEST(t.Context(), f, nil, distinct(8), rule, testKey.jestDraws()); err == nil {
		t.Error("no error without a reference")
	}
}
